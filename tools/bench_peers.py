"""Called by tools/bench-peers: the same work in turn in TensorPlay and in other libraries, in one
process, and who is faster by what factor."""

import argparse
import fnmatch
import gc
import json
import math
import os
import pathlib
import platform
import random
import statistics
import sys
import time


def options_of_call():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", default="*")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--with-torch", action="store_true")
    parser.add_argument("--cpu-time", action="store_true")
    options = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))
    options.threads = options.threads or len(cores)
    if not 0 < options.threads <= len(cores):
        parser.error(f"--threads: 1 to {len(cores)} here")
    # XLA and others size their pools by the cores they may use, so everybody gets these.
    os.sched_setaffinity(0, cores[: options.threads])
    for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR"):
        os.environ[f"{name}_NUM_THREADS"] = str(options.threads)
    os.environ["JAX_PLATFORMS"] = "cpu"
    # A core that the environment names for an old OpenBLAS would slow NumPy's own, newer one.
    for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
        os.environ.pop(name, None)
    options.out = options.build / "bench-peers"
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(options.out / "inductor")
    return options


OPTIONS = options_of_call()

# Libraries read the environment when they are loaded.
import bench_libraries  # noqa: E402
import bench_rows  # noqa: E402
import numpy as np  # noqa: E402

TURN_NS = 1_000_000  # calls are repeated until a turn takes about this long
LONG_NS = 20_000_000  # calls longer than this need no call before them to warm up
MOST_ROUNDS = 101


def first_line(problem):
    return (str(problem) or repr(problem)).splitlines()[0]


def set_up(options):
    """The libraries that load, ours first, and of the others the reasons."""
    kinds = [bench_libraries.Numpy, bench_libraries.Numexpr, bench_libraries.Jax, bench_libraries.Mlx]
    if options.with_torch:
        kinds += [bench_libraries.Torch, bench_libraries.TorchCompile]
    libraries, missing = [bench_libraries.Ours(options)], {}
    for kind in kinds:
        try:
            libraries.append(kind(options))
        except Exception as problem:
            note = options.build / "peers" / f"{kind.package}.missing"
            missing[kind.name] = note.read_text().strip() if note.exists() else first_line(problem)
    return libraries, missing


now_ns = time.process_time_ns if OPTIONS.cpu_time else time.perf_counter_ns


def clock(run, calls):
    start = now_ns()
    for _ in range(calls):
        run()
    return (now_ns() - start) / calls


def measure(runs, seconds, least_rounds):
    """Nanoseconds of each run, {name: [one of each round]}: in turn, in a new order each round."""
    alone = {name: min(clock(run, 1) for _ in range(2)) for name, run in runs.items()}
    calls = {name: max(1, math.ceil(TURN_NS / t)) for name, t in alone.items()}
    times, order, rng = {name: [] for name in runs}, list(runs), random.Random(1)
    end, rounds = time.monotonic() + seconds, 0
    gc.collect()
    gc.disable()
    while rounds < least_rounds or (time.monotonic() < end and rounds < MOST_ROUNDS):
        rng.shuffle(order)
        for name in order:
            # The caches and the threads are this run's own again, when the clock starts.
            if alone[name] < LONG_NS:
                runs[name]()
            times[name].append(clock(runs[name], calls[name]))
        rounds += 1
    gc.enable()
    return times


def spread(values):
    """Median, quartiles and the least."""
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": middle, "low": low, "high": high, "least": min(values)}


def largest_error(got, want):
    """In units of the largest magnitude of what is wanted."""
    return math.inf if got.shape != want.shape else float(np.abs(got - want).max() / np.abs(want).max())


def reference(row, arrays):
    exact = [x.astype(np.float64) for x in arrays]
    return row.step(exact[0]) if row.step else row.work(bench_libraries.Numpy(None), *exact)


def run_row(row, label, libraries, quick):
    arrays = bench_rows.make_inputs(row, row.sizes[label])
    want, runs = reference(row, arrays), {}
    result = {"row": row.name, "size": label, "errors": {}, "failed": {}}
    for library in libraries:
        try:
            given = [library.put(x) for x in arrays]
            run = library.loop(row, given[0]) if row.step else library.prepare(row, given)
            run()
            result["errors"][library.name] = largest_error(library.get(run()), want)
            runs[library.name] = run
        except bench_libraries.Lacking:
            pass
        except Exception as problem:
            result["failed"][library.name] = first_line(problem)
    wrong = [name for name, error in result["errors"].items() if not error <= row.bound]
    result["wrong"] = wrong
    right = {name: run for name, run in runs.items() if name not in wrong}
    times = measure(right, 0.5, 3) if quick else measure(right, 4, 5)
    ours = times.get("tensorplay")
    result["times_ns"] = {name: spread(values) for name, values in times.items()}
    # Round by round, so that a neighbour's load hits both sides of a quotient.
    result["factors"] = {
        name: spread([theirs / mine for theirs, mine in zip(values, ours)])
        for name, values in times.items()
        if ours and name != "tensorplay"
    }
    for library in libraries:
        library.close()
    return result


def lost(result):
    return [name for name, factor in result["factors"].items() if factor["median"] < 1]


def time_text(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def percent(value):
    return f"±{50 * (value['high'] - value['low']) / value['median']:.0f} %"


def cell(result, name):
    if name in result["wrong"]:
        return "differs"
    if name in result["failed"]:
        return "failed"
    if name not in result["factors"]:
        return "-"
    factor = result["factors"][name]
    text = f"{factor['median']:.2f}"
    return f"{f'**{text}**' if factor['median'] < 1 else text} {percent(factor)}"


def print_line(result, names):
    ours = result["times_ns"].get("tensorplay")
    mine = f"{time_text(ours['median'])} {percent(ours)}" if ours else cell(result, "tensorplay")
    cells = [f"{result['row']}, {result['size']}".ljust(45), mine.rjust(15)] + [
        cell(result, name).rjust(16) for name in names
    ]
    print(" | ".join(cells), flush=True)


def print_experiments(results):
    """What a layout costs each library: quotients of times."""
    found = {(r["row"], r["size"]): r["times_ns"] for r in results}
    counts = {row.name: row.count for row in bench_rows.ROWS}
    title_due = True
    for title, slow, fast in bench_rows.EXPERIMENTS:
        if slow not in found or fast not in found:
            continue
        if title_due:
            print("\nThe stride experiments: time by time, for each library alone")
            title_due = False
        quotients = {
            name: found[slow][name]["median"] / counts[slow[0]] / (found[fast][name]["median"] / counts[fast[0]])
            for name in found[slow]
            if name in found[fast]
        }
        print(f"  {title}: " + ", ".join(f"{name} {quotient:.3g}" for name, quotient in quotients.items()))


def print_verdict(results):
    losses = [(r["factors"][name]["median"], r, name) for r in results for name in lost(r)]
    compared = sum(len(r["factors"]) for r in results)
    print(f"\n{len(losses)} of {compared} comparisons lost" + (", the worst first:" if losses else ""))
    for factor, r, name in sorted(losses, key=lambda loss: loss[0]):
        low, high = (r["factors"][name][end] for end in ("low", "high"))
        mine, theirs = (r["times_ns"][who] for who in ("tensorplay", name))
        print(
            f"  **{factor:.2f}** ({low:.2f} to {high:.2f})  {r['row']}, {r['size']}: {time_text(mine['median'])}, {name} "
            f"{time_text(theirs['median'])}; best times {theirs['least'] / mine['least']:.2f}"
        )
    for r in results:
        for name in r["wrong"]:
            print(f"differs: {r['row']}, {r['size']}: {name} by {r['errors'][name]:.2g} of the largest magnitude")
        for name, reason in r["failed"].items():
            print(f"failed: {r['row']}, {r['size']}: {name}: {reason}")


def draw(results, path):
    """Time against size, a picture a row with more than one size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plot

    rows = {}
    for r in results:
        rows.setdefault(r["row"], []).append(r)
    rows = {name: sizes for name, sizes in rows.items() if len(sizes) > 1}
    if not rows:
        return False
    columns = min(3, len(rows))
    lines = math.ceil(len(rows) / columns)
    figure, axes = plot.subplots(lines, columns, figsize=(5 * columns, 3.6 * lines), squeeze=False)
    names = list(dict.fromkeys(name for r in results for name in r["times_ns"]))
    for place in axes.flat[len(rows) :]:
        place.remove()
    for place, (title, sizes) in zip(axes.flat, rows.items()):
        for colour, name in enumerate(names):
            points = [(r["size"], r["times_ns"][name]) for r in sizes if name in r["times_ns"]]
            if points:
                middle = [t["median"] / 1e3 for _, t in points]
                bars = [
                    [(t["median"] - t["low"]) / 1e3 for _, t in points],
                    [(t["high"] - t["median"]) / 1e3 for _, t in points],
                ]
                style = {"linewidth": 2.5, "color": "black"} if name == "tensorplay" else {"color": f"C{colour}"}
                place.errorbar([size for size, _ in points], middle, bars, marker="o", label=name, **style)
        place.set(title=title, yscale="log", ylabel="us")
        place.grid(True, which="major", alpha=0.3)
    handles = {text: handle for place in figure.axes for handle, text in zip(*place.get_legend_handles_labels())}
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles))
    figure.tight_layout(rect=(0, 0.3 / lines / 3.6, 1, 1))
    figure.savefig(path)
    return True


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines() if os.path.exists("/proc/cpuinfo") else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main():
    options = OPTIONS
    rows = [row for row in bench_rows.ROWS if fnmatch.fnmatch(row.name, options.rows)]
    if not rows:
        print(f"no row is called {options.rows}: there are " + "; ".join(row.name for row in bench_rows.ROWS))
        sys.exit(2)
    libraries, missing = set_up(options)
    versions = {library.name: library.version() for library in libraries}
    names = [library.name for library in libraries[1:]]
    load = os.getloadavg()[0]
    print(f"{processor()}, {options.threads} thread(s), load {load:.1f} at the start; f32; {versions['tensorplay']}")
    print(", ".join(f"{name} {version}" for name, version in versions.items() if name != "tensorplay"))
    for name, reason in missing.items():
        print(f"missing: {name}: {reason}")
    print("Times are medians, factors medians of (theirs / ours) in the same round: above 1 we are faster.")
    if options.cpu_time:
        print("Counted is the processor's time, of all threads together.")
    elif load > len(os.sched_getaffinity(0)) / 2:
        print("The machine is busy, and times include what others run: see --cpu-time.")
    print()
    header = ["row".ljust(45), "ours".rjust(15)] + [name.rjust(16) for name in names]
    print(" | ".join(header), flush=True)
    results = []
    for row in rows:
        for label in row.quick if options.quick else row.sizes:
            results.append(run_row(row, label, libraries, options.quick))
            print_line(results[-1], names)
    print_experiments(results)
    print_verdict(results)
    facts = {
        "processor": processor(),
        "threads": options.threads,
        "load": load,
        "versions": versions,
        "missing": missing,
    }
    (options.out / "results.json").write_text(json.dumps(facts | {"results": results}, indent=1))
    drawn = draw(results, options.out / "results.svg")
    print(f"\n{options.out}/results.json" + (f", {options.out}/results.svg" if drawn else ""))
    sys.exit(1 if any(r["wrong"] or r["failed"] for r in results) else 0)


if __name__ == "__main__":
    main()
