#!/usr/bin/env python3
"""Makes the inputs and the expected results of the examples. Everything is plain NumPy in float64, and
each result is found in another way than the program finds it: a loop where the program
broadcasts, a solver where it iterates. Prints what it writes."""

import argparse
import heapq
import math
import pathlib

import numpy as np

OPTIONS = argparse.ArgumentParser(description=__doc__)
OPTIONS.add_argument("folder", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).parent / "data",
                     help="where the folders of data go; data/ beside this file by default")


def write(example, **arrays):
    folder = TARGET / example
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        array = np.asarray(array)
        np.save(folder / f"{name}.npy", array)
        print(f"{example}/{name}.npy: {array.dtype} {list(array.shape)}")


def f32(x):
    """What the program reads; the result is calculated from the same rounded values."""
    return np.asarray(x, np.float32)


def f64(*arrays):
    return [a.astype(np.float64) for a in arrays]


def normalise(rng):
    image = rng.integers(0, 256, (32, 40, 3), dtype=np.uint8)
    mean, std = f32([0.485, 0.456, 0.406]), f32([0.229, 0.224, 0.225])
    planes = [(image[:, :, c] / 255.0 - float(mean[c])) / float(std[c]) for c in range(3)]
    write("normalise", image=image, mean=mean, std=std, expected=f32(np.stack(planes)))


def kmeans(rng):
    true = np.array([[0, 0], [6, 1], [1, 7], [7, 7], [-5, 4]], float)
    points = f32(np.concatenate([t + rng.normal(0, 1, (50, 2)) for t in true]))
    start = points[[0, 1, 60, 120, 180]]
    centres, p = start.astype(np.float64), points.astype(np.float64)

    def label():
        distances = [[math.dist(x, c) for c in centres] for x in p]
        # No point lies so that f32 could see another centre nearest.
        two = np.sort(distances, axis=1)
        assert np.min(two[:, 1] - two[:, 0]) > 1e-4
        return np.argmin(distances, axis=1)

    for _ in range(8):
        labels = label()
        centres = np.array([p[labels == i].mean(0) for i in range(len(centres))])
    write("kmeans", points=points, centres=start, expected_centres=centres, expected_labels=label())


def power_iteration(rng):
    n = 48
    q, _ = np.linalg.qr(rng.normal(size=(n, n)))
    a = (q * np.concatenate([[5.0], rng.uniform(-2, 2, n - 1)])) @ q.T
    a, start = f32((a + a.T) / 2), f32(rng.normal(size=n))
    values, vectors = np.linalg.eigh(a.astype(np.float64))
    vector = vectors[:, -1] * np.sign(vectors[:, -1] @ start)
    write("power_iteration", matrix=a, start=start, expected_value=values[-1], expected_vector=vector)


def pagerank(rng):
    n, damping = 64, 0.85
    links = rng.random((n, n)) < rng.uniform(0.02, 0.3, n)
    np.fill_diagonal(links, False)
    links[5] = False  # a page without links
    flow = np.zeros((n, n))
    for page in range(n):
        targets = np.flatnonzero(links[page]) if links[page].any() else np.arange(n)
        flow[targets, page] = 1 / len(targets)
    rank = np.linalg.solve(np.eye(n) - damping * flow, np.full(n, (1 - damping) / n))
    write("pagerank", links=links, expected=rank)


def blur(rng):
    image = f32(rng.random((40, 48)))
    weights = f32(np.exp(-np.linspace(-2, 2, 7) ** 2 / 2))
    weights /= weights.sum()
    x, w = f64(image, weights)
    both = np.outer(w, w)  # the two passes as one
    expected = [[(x[i:i + 7, j:j + 7] * both).sum() for j in range(42)] for i in range(34)]
    write("blur", image=image, weights=weights, expected=f32(expected))


def life(rng):
    height, width, rounds = 24, 32, 12
    grid = rng.random((height, width)) < 0.35
    alive = {(int(y), int(x)) for y, x in np.argwhere(grid)}
    for _ in range(rounds):  # only living cells and who is near them
        near = {}
        for y, x in alive:
            for dy in (-1, 0, 1):
                for dx in (-1, 0, 1):
                    if dy or dx:
                        near[y + dy, x + dx] = near.get((y + dy, x + dx), 0) + 1
        alive = {(y, x) for (y, x), n in near.items()
                 if (n == 3 or (n == 2 and (y, x) in alive)) and 0 <= y < height and 0 <= x < width}
    expected = np.zeros_like(grid)
    for cell in alive:
        expected[cell] = True
    write("life", grid=grid, expected=expected)


def heat(rng):
    n, steps, speed = 20, 20, 0.2
    plate = f32(rng.uniform(0, 1, (n, n)))
    plate[0] = 4  # a hot edge
    # One step as a matrix over all points, then its power.
    step = np.eye(n * n)
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            point = i * n + j
            step[point, point] -= 4 * speed
            for neighbour in (point - n, point + n, point - 1, point + 1):
                step[point, neighbour] += speed
    expected = np.linalg.matrix_power(step, steps) @ plate.astype(np.float64).ravel()
    write("heat", plate=plate, expected=f32(expected.reshape(n, n)))


def mandelbrot(rng):
    real, imag = np.linspace(-2.13, 0.71, 57), np.linspace(-1.23, 1.21, 41)

    def counts(shift):
        count = np.zeros((len(imag), len(real)), np.int32)
        for i, y in enumerate(imag):
            for j, x in enumerate(real):
                z = 0j
                for _ in range(40):
                    z = z * z + complex(x + shift, y)
                    if abs(z) > 2:
                        break
                    count[i, j] += 1
        return count

    # The grid has no point whose count hangs on the last bits.
    expected = counts(0)
    assert all((counts(s) == expected).all() for s in (1e-14, -1e-14))
    write("mandelbrot", real=real, imag=imag, expected=expected)


def floyd_warshall(rng):
    n = 24
    edges = np.where(rng.random((n, n)) < 0.12, rng.integers(1, 20, (n, n)), np.inf)
    for i in range(n):
        edges[i, i], edges[i, (i + 1) % n] = 0, 19  # a ring: every node is reached
    expected = np.full((n, n), np.inf)
    for source in range(n):  # Dijkstra
        queue = [(0.0, source)]
        while queue:
            length, node = heapq.heappop(queue)
            if length >= expected[source, node]:
                continue
            expected[source, node] = length
            for to in range(n):
                heapq.heappush(queue, (length + edges[node, to], to))
    write("floyd_warshall", edges=f32(edges), expected=f32(expected))


def nbody(rng):
    n, dt = 40, 0.01
    position, velocity, mass = f32(rng.normal(size=(n, 3))), f32(rng.normal(size=(n, 3))), f32(rng.uniform(0.5, 2, n))
    p, v, m = f64(position, velocity, mass)

    def acceleration():
        a = np.zeros_like(p)
        for i in range(n):
            for j in range(i):  # each pair once, action and reaction
                d = p[j] - p[i]
                pull = d / (d @ d + 0.01) ** 1.5
                a[i] += m[j] * pull
                a[j] -= m[i] * pull
        return a

    for _ in range(4):
        v += acceleration() * dt / 2
        p += v * dt
        v += acceleration() * dt / 2
    write("nbody", position=position, velocity=velocity, mass=mass, expected_position=p, expected_velocity=v)


def black_scholes(rng):
    strike, term = f32(np.linspace(70, 130, 31)), f32([0.1, 0.25, 0.5, 1, 2, 5])
    spot, rate, volatility = 100, 0.03, 0.2

    def normal_cdf(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    def price(k, t, sign):  # sign 1: call, -1: put, each by its own formula
        d = volatility * math.sqrt(t)
        d1 = math.log(spot / k) / d + rate * t / d + d / 2
        return sign * (spot * normal_cdf(sign * d1) - k * math.exp(-rate * t) * normal_cdf(sign * (d1 - d)))

    call, put = ([[price(float(k), float(t), sign) for k in strike] for t in term] for sign in (1, -1))
    write("black_scholes", strike=strike, term=term, expected_call=call, expected_put=put)


def attend(q, k, v, causal=False):
    """One head: rows of q against rows of k, row by row."""
    out = np.empty((len(q), v.shape[1]))
    for i, row in enumerate(q):
        last = i + 1 if causal else len(k)
        weights = np.exp(k[:last] @ row / math.sqrt(q.shape[1]))
        out[i] = weights @ v[:last] / weights.sum()
    return out


def grouped_query_attention(rng):
    batch, seq, width, groups, sharing = 2, 12, 64, 2, 4
    depth = width // (groups * sharing)
    x, *w = (f32(rng.normal(size=s)) / f32(8 if i else 1) for i, s in enumerate(
        [(batch, seq, width), (width, width), (groups * depth, width), (groups * depth, width), (width, width)]))
    X, wq, wk, wv, wo = f64(x, *w)
    y = np.empty((batch, seq, width))
    for b in range(batch):
        heads = []
        for h in range(groups * sharing):
            g = h // sharing
            q = X[b] @ wq[h * depth:(h + 1) * depth].T
            k, v = (X[b] @ part[g * depth:(g + 1) * depth].T for part in (wk, wv))
            heads.append(attend(q, k, v))
        y[b] = np.hstack(heads) @ wo.T
    write("grouped_query_attention", x=x, **dict(zip(("wq", "wk", "wv", "wo"), w)), expected=f32(y))


def gpt2_qkv(rng):
    batch, seq, width, heads = 2, 10, 32, 4
    depth = width // heads
    x = f32(rng.normal(size=(batch, seq, width)))
    w_qkv, w_out = f32(rng.normal(0, 0.2, (width, 3 * width))), f32(rng.normal(0, 0.2, (width, width)))
    b_qkv, b_out = f32(rng.normal(0, 0.2, 3 * width)), f32(rng.normal(0, 0.2, width))
    X, W, B, WO, BO = f64(x, w_qkv, b_qkv, w_out, b_out)
    y = np.empty((batch, seq, width))
    for b in range(batch):
        context = []
        for h in range(heads):
            columns = [slice(i * width + h * depth, i * width + (h + 1) * depth) for i in range(3)]
            context.append(attend(*(X[b] @ W[:, c] + B[c] for c in columns), causal=True))
        y[b] = np.hstack(context) @ WO + BO
    write("gpt2_qkv", x=x, w_qkv=w_qkv, b_qkv=b_qkv, w_out=w_out, b_out=b_out, expected=f32(y))


def rotary(rng):
    batch, seq, heads, depth = 2, 12, 4, 16
    half = depth // 2
    q, k = (f32(rng.normal(size=(batch, seq, heads, depth))) for _ in range(2))
    angle = np.outer(np.arange(seq), 10000.0 ** (-np.arange(half) / half))
    cos, sin = f32(np.cos(angle)), f32(np.sin(angle))

    def turn(x):  # pairs (i, i + half) as complex numbers
        z = (x[..., :half] + 1j * x[..., half:]) * (cos + 1j * sin.astype(np.float64))[:, None]
        return np.concatenate([z.real, z.imag], axis=-1)

    Q, K = (turn(x) for x in f64(q, k))
    scores = [[[[Q[b, i, h] @ K[b, j, h] for j in range(seq)] for i in range(seq)] for h in range(heads)]
              for b in range(batch)]
    write("rotary", q=q, k=k, cos=cos, sin=sin, expected=f32(scores))


def moving_statistics(rng):
    size = 16
    series = f32(np.cumsum(rng.normal(size=(3, 200)), axis=1))
    s = series.astype(np.float64)
    windows = [s[:, i:i + size] for i in range(s.shape[1] - size + 1)]
    mean, std = (np.stack([f(w, axis=1) for w in windows], axis=1) for f in (np.mean, np.std))
    write("moving_statistics", series=series, expected_mean=mean, expected_std=std)


if __name__ == "__main__":
    TARGET = OPTIONS.parse_args().folder
    examples = [normalise, kmeans, power_iteration, pagerank, blur, life, heat, mandelbrot, floyd_warshall, nbody, moving_statistics,
                black_scholes, grouped_query_attention, gpt2_qkv, rotary]
    for example in examples:
        example(np.random.default_rng(sum(example.__name__.encode())))
