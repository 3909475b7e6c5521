"""Called by tools/minilm: all of all-MiniLM-L6-v2 in NumPy float64 and in TensorPlay, how far the
embeddings are apart, and whether the sentences are alike in the same order."""

import argparse
import itertools
import pathlib
import subprocess
import sys

import numpy as np
from minilm_attention import attention, copies, embed, finish_layer, tokenise, unpack

# The first three are those of PUBLISHED.
SENTENCES = [
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
    "She took the car to the football ground.",
    "A copy that nobody needs is a bug like a wrong number.",
    "Data that is moved about for no reason counts as an error.",
    "Bread",
    "How long does sourdough have to rise before it goes into the oven?",
    "The committee, which had met every Thursday since the spring without agreeing on anything but the date of "
    "its next meeting, voted at last to repair the bridge.",
    "After months of talk, the council decided that the bridge will be mended.",
]
# Similarities of pairs as the documentation of sentence-transformers prints them, to four places.
PUBLISHED = {(0, 1): 0.6660, (0, 2): 0.1046, (1, 2): 0.1411}
LARGEST_ERROR = 1e-4
# Two pairs whose similarities NumPy finds nearer than this have no order that f32 could keep.
NEAR_TIE = 1e-6


def encode(ids, weights, config):
    """One sentence, without padding and so without a mask: nothing that the example could share."""
    eps, x = config["layer_norm_eps"], embed(ids[None], weights, config["layer_norm_eps"])
    for i in range(config["num_hidden_layers"]):
        name = f"encoder.layer.{i}"
        attended = attention(x, weights, f"{name}.attention", config["num_attention_heads"], 0.0)
        x = finish_layer(x, attended, weights, name, eps)
    mean = x[0].mean(0)
    return mean / np.sqrt((mean**2).sum())


def write_inputs(folder, weights, ids, mask):
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "ids.npy", ids.astype(np.int64))
    np.save(folder / "mask.npy", mask.astype(np.int64))
    for name, values in weights.items():
        if name.endswith((".weight", ".bias")):
            np.save(folder / f"{name}.npy", values)


def run_example(build, folder):
    """The model in TensorPlay: its embeddings, its exit code and its text."""
    (folder / "embeddings.npy").unlink(missing_ok=True)
    done = subprocess.run([build / "bin" / "minilm", folder], capture_output=True, text=True)
    print(done.stdout, flush=True)
    if done.returncode not in (0, 1):
        print(done.stderr, end="", file=sys.stderr)
        sys.exit(3)
    return np.load(folder / "embeddings.npy").astype(np.float64), done.returncode, done.stdout


def print_sentences(sentences, mask, want, got):
    print("tokens  largest error  most like it, NumPy  TensorPlay  sentence")
    for i, sentence in enumerate(sentences):
        line = f"{mask[i].sum():6}  {np.abs(got[i] - want[i]).max():13.2g}"
        if len(sentences) > 1:
            nearest = max((j for j in range(len(sentences)) if j != i), key=lambda j: want[i] @ want[j])
            line += f"  {nearest:12} {want[i] @ want[nearest]:.4f}  {got[i] @ got[nearest]:10.4f}"
        print(f"{line}  {i}: {sentence[:50]}{'...' if len(sentence) > 50 else ''}")


def order_agrees(want, got):
    """Whether all pairs of sentences are alike in the same order; prints what was compared."""
    first, second = np.triu_indices(len(want), 1)
    exact, found = ((x @ x.T)[first, second] for x in (want, got))
    swapped = ties = compared = 0
    for a, b in itertools.combinations(np.argsort(exact), 2):
        if exact[b] - exact[a] < NEAR_TIE:
            ties += 1
        else:
            compared += 1
            swapped += bool(found[a] >= found[b])
    if len(exact) > 1:
        print(
            f"order       of {len(exact)} similarities, two by two: {swapped} of {compared} in another order; {ties} near "
            f"ties (closer than {NEAR_TIE:g}) not judged\n            the closest two are {np.diff(np.sort(exact)).min():.2g} "
            f"apart in NumPy; NumPy and TensorPlay, {np.abs(found - exact).max():.2g}"
        )
    return swapped == 0


def as_published(got):
    found = {pair: got[pair[0]] @ got[pair[1]] for pair in PUBLISHED}
    print("published   " + ", ".join(f"{PUBLISHED[pair]:.4f} (here {found[pair]:.4f})" for pair in PUBLISHED))
    return all(round(found[pair], 4) == PUBLISHED[pair] for pair in PUBLISHED)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("sentences", nargs="*", metavar="SENTENCE")
    options = parser.parse_args()
    sentences, folder = options.sentences or SENTENCES, options.build / "minilm" / "whole"
    config, weights, tokenizer = unpack(options.build / "minilm" / "model")
    ids, mask = tokenise(tokenizer, sentences)
    write_inputs(folder, weights, ids, mask)
    got, code, text = run_example(options.build, folder)
    want = np.array([encode(row[keep == 1], weights, config) for row, keep in zip(ids, mask)])
    asked, planned = copies(text)
    print_sentences(sentences, mask, want, got)
    print()
    error = np.abs(got - want).max()
    print(f"embeddings  largest error {error:.2g}, allowed {LARGEST_ERROR:g}")
    checks = {
        "the embeddings": error <= LARGEST_ERROR,
        "the order": order_agrees(want, got),
        "the published similarities": bool(options.sentences) or as_published(got),
        "the copies": code == 0 and planned == 0,
    }
    print(f"copies      {asked} as built, {planned} planned, allowed 0")
    wrong = [name for name, fine in checks.items() if not fine]
    print("\n" + (f"wrong: {', '.join(wrong)}" if wrong else "the model agrees with NumPy, and nothing is copied"))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
