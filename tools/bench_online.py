"""What comparing notes costs: the store, a training step, and over minutes.

    python tools/bench_online.py store [--ranks 8 100 1000] [--heartbeat 5] [--healthy 20]
    python tools/bench_online.py step [--ranks 2 8] [--rounds 6] [--seconds 12]
    python tools/bench_online.py soak [--minutes 10] [--logs FOLDER]

Exit status: 1 if the soak touched its job, which is healthy, or left something behind.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.bench_parts import online_soak, online_step, online_store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parts = parser.add_subparsers(dest="part", required=True)
    store = parts.add_parser("store", help=online_store.__doc__)
    store.add_argument("--ranks", type=int, nargs="+", default=[8, 100, 1000])
    store.add_argument("--heartbeat", type=float, default=5.0, help="seconds")
    store.add_argument("--healthy", type=float, default=20.0, help="seconds before they part")
    step = parts.add_parser("step", help=online_step.__doc__)
    step.add_argument("--ranks", type=int, nargs="+", default=[2, 8])
    step.add_argument("--rounds", type=int, default=6)
    step.add_argument("--seconds", type=float, default=12.0, help="of each of a round's three")
    soak = parts.add_parser("soak", help=online_soak.__doc__)
    soak.add_argument("--minutes", type=float, default=10.0)
    soak.add_argument("--logs", type=Path, help="where the record is to stay")
    given = parser.parse_args()
    if given.part == "store":
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        print(online_store.HEAD)
        for world_size in given.ranks:
            print(online_store.measure(world_size, given.heartbeat, given.healthy), flush=True)
    elif given.part == "step":
        print(online_step.HEAD)
        for world_size in given.ranks:
            print(online_step.measure(world_size, given.rounds, given.seconds), flush=True)
    else:
        soaked = online_soak.measure(given.minutes * 60, given.logs)
        print(soaked.text)
        return 0 if soaked.is_clean else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
