"""One rank of a test: ``rank_main.py MODULE FUNCTION OPTIONS``."""

from __future__ import annotations

import datetime
import importlib
import json
import os
import sys
from operator import attrgetter
from pathlib import Path

import torch.distributed as dist

import collectrace


def main() -> None:
    module, name, text = sys.argv[1:]
    options = json.loads(text)
    function = attrgetter(name)(importlib.import_module(module))
    if options["trace"]:
        collectrace.enable()
    if options["init"]:
        timeout = datetime.timedelta(seconds=options["timeout"])
        dist.init_process_group("gloo", timeout=timeout)
    result = function(*options["args"])
    # Beside what the rank prints, and its rank is in the environment whatever was initialised.
    output = Path("/proc/self/fd/1").readlink()
    output.with_name(f"result{os.environ['RANK']}.json").write_text(json.dumps(result))
    if options["init"] and dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
