"""Switch tracing on in an unmodified program: ``COLLECTRACE=1``.

At the end of its import, torch calls every entry point of the group ``torch.backends``
(torch/__init__.py, ``_import_device_backends``; torch 2.5 to 2.15). :func:`on_torch` is one. So the
variable works in every process that inherits it. A program that never imports torch pays nothing.
``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` makes torch call none.
"""

from __future__ import annotations

import os
import sys


def on_torch() -> None:
    """Switch tracing on if the environment requests it. Torch is imported already.

    Raises nothing, because that would end the import of torch. A problem is one line of warning.
    """
    # enable() itself imports torch, and has its own options.
    if not os.environ.get("COLLECTRACE") or "collectrace.tracer" in sys.modules:
        return
    try:
        _enable()
    except Exception as problem:  # noqa: BLE001 - whatever it is, the program goes on
        from collectrace.errors import not_traced

        not_traced(problem)


def _enable() -> None:
    import collectrace
    from collectrace.config import Config, is_switched_on

    if is_switched_on(os.environ):
        # Child processes may start in another folder.
        os.environ.update(Config.from_environment().to_environment())
        collectrace.enable()
