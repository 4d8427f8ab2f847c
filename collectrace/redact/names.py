"""Placeholders for the user's names in a log, and the map back from them.

A text keeps what says nothing about the user: numbers, punctuation, and the words that
collectrace's own source uses, which are Python's, torch's and those of the frameworks it knows.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from functools import cache
from pathlib import Path
from typing import Final

from collectrace.log_folder import PENDING, RUN_ID

_WORD: Final = re.compile(r"\w+")
_PLACEHOLDER: Final = re.compile(r"(?:name|file|host|run|text|package|process|log)\d+")
_NUMBER: Final = re.compile(r"\d{1,4}")
"""Numbers in a text that stay: ranks, lines, sizes. A longer one may be an account's or a port."""
_LONG_NUMBER: Final = "9000"
"""The beginning of the placeholder for a longer number: another long number."""

_VERSION: Final = re.compile(r"\d+|cpu|cu\d+|rocm\d*|git\w*|a\d+|b\d+|rc\d+|dev\d*|post\d+")
"""What versions that anybody can have are made of."""

_DURATION: Final = re.compile(r"\d{1,7}m?s")

_NO_NAME: Final = re.compile(r"[\d_]+|[0-9a-f]{40}")
"""Numbers, as in the names of a pool's threads; a group's name that torch has made of its ranks."""

_PATH: Final = r"(?<![\w./-])(?:/[^/\s'\":,;()\[\]<>=]+)+"
_ADDRESS: Final = r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
_IN_TEXT: Final = re.compile(rf"(?P<path>{_PATH})|(?P<address>{_ADDRESS})|\w+")

_SUFFIXES: Final = (".py", ".ipynb", ".so")
_PACKAGES: Final = re.compile(r"/(?:site-packages|dist-packages)/([^/]+)(/.*)?")
_STDLIB: Final = re.compile(r"/lib(?:64)?/python3[.\dt]*/([^/.]+).*")
_OF_TORCH: Final = re.compile(r"/(?:collectrace/tracer|third_party/(?:gloo|nccl)|torch/csrc)/.*")
_PUBLIC: Final = frozenset({
    "accelerate", "apex", "axolotl", "collectrace", "colossalai", "composer", "datasets",
    "deepspeed", "fairscale", "fairseq", "fairseq2", "fla", "functorch", "ignite", "lightning",
    "lightning_fabric", "lightning_utilities", "llamafactory", "megatron", "mmengine", "monai",
    "nemo", "numpy", "openrlhf", "peft", "pytorch_lightning", "ray", "sglang", "torch",
    "torchaudio", "torchdata", "torchft", "torchmetrics", "torchrec", "torchtitan", "torchtune",
    "torchvision", "transformer_engine", "transformers", "triton", "trl", "typing_extensions.py",
    "verl", "vllm", "wrapt",
})  # fmt: skip
"""Installed packages that anybody can have: their paths, names and texts stay as they are."""


@cache
def terms() -> frozenset[str]:
    """Return the words that say nothing about a user."""
    found = {*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *sys.stdlib_module_names}
    for kind in (object, int, float, str, bytes, list, tuple, dict, set, type, Exception):
        found.update(dir(kind))
    for file in Path(__file__).parents[1].rglob("*.py"):
        found.update(_WORD.findall(file.read_text(encoding="utf-8")))
    return frozenset(word for word in found if not _PLACEHOLDER.fullmatch(word))


def public_part(path: str) -> str:
    """Return the part of a path that names public code; empty: it is the user's code."""
    if path.startswith("<frozen "):
        return path
    package = _PACKAGES.search(path)
    if package is not None:
        return package[0] if package[1] in _PUBLIC else ""
    library = _STDLIB.search(path)
    if library is not None:
        return library[0] if library[1] in sys.stdlib_module_names else ""
    found = _OF_TORCH.search(path)
    return found[0] if found is not None else ""


class Names:
    """Placeholders, each for one text; two texts never share one.

    ``keeps_names``: the names that the program gave stay, as its text does.
    """

    def __init__(self, *, keeps_names: bool = False, keeps_messages: bool = False) -> None:
        self._keeps_names, self._keeps_messages = keeps_names, keeps_messages
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, what: str, text: str) -> str:
        """Return the placeholder of a text: ``what`` and a number."""
        found = self._known.get((what, text))
        if found is None:
            count = self._counts[what] = self._counts.get(what, 0) + 1
            found = self._known[what, text] = f"{what}{count}"
        return found

    def map(self) -> dict[str, str]:
        """Return the text that each placeholder stands for."""
        return {placeholder: text for (_, text), placeholder in self._known.items()}

    def word(self, word: str) -> str:
        """Return a word or number of a program unchanged, unless it is a name of the user's."""
        if self._keeps_names or word in terms() or _NO_NAME.fullmatch(word):
            return word
        return self.of("name", word)

    def names(self, text: str) -> str:
        """Return a text with each name of the user's replaced."""
        return _WORD.sub(lambda found: self.word(found[0]), text)

    def path(self, path: str) -> str:
        """Return the known part of a path to public code, or a placeholder."""
        if path.startswith(("<", "pipe:[", "socket:[")):
            return self.names(path)
        if public := public_part(path):
            return public
        suffix = next((one for one in _SUFFIXES if path.endswith(one)), "")
        name = self.of("file", path) + suffix
        package = _PACKAGES.search(path)
        if package is not None:
            return f"/site-packages/{self.of('package', package[1])}/{name}"
        return name if path else ""

    def place(self, text: str) -> str:
        """Return ``path:line``."""
        path, colon, line = text.rpartition(":")
        return f"{self.path(path)}{colon}{self.names(line)}" if colon else self.path(line)

    def frame(self, text: str) -> str:
        """Return ``path:line function``."""
        place, _, function = text.rpartition(" ")
        is_public = bool(public_part(place.rpartition(":")[0]))
        return f"{self.place(place)} {function if is_public else self.names(function)}"

    def library_frame(self, text: str) -> str:
        """Return ``inside path:line function``."""
        inside, _, frame = text.partition(" ")
        return f"{self.names(inside)} {self.frame(frame)}"

    def host(self, text: str) -> str:
        """Return the placeholder of a host."""
        return self.of("host", text) if text else ""

    def address(self, text: str) -> str:
        """Return an address and port."""
        host, colon, port = text.rpartition(":")
        return f"{self.host(host)}{colon}{self._number(port)}"

    def run(self, text: str) -> str:
        """Return the id of a run, or the name of a folder of logs."""
        is_ours = text == PENDING or RUN_ID.fullmatch(text) is not None
        return text if is_ours or not text else self.of("run", text)

    def message(self, text: str) -> str:
        """Return the text of an exception, or a setting's value."""
        return text if self._keeps_messages else self.masked(text)

    def masked(self, text: str) -> str:
        """Return a text with paths, addresses, words and long numbers of the user's replaced."""

        def change(found: re.Match[str]) -> str:
            if found["path"]:
                return self.path(found[0])
            if found["address"]:
                return self.host(found[0])
            if found[0].isdigit():
                return self._number(found[0])
            is_term = not terms().isdisjoint((found[0], found[0].lower()))
            is_plain = is_term or _DURATION.fullmatch(found[0]) is not None
            return found[0] if is_plain else self.of("name", found[0])

        return _IN_TEXT.sub(change, text)

    def version(self, text: str) -> str:
        """Return the version of software: numbers, and words that many versions have."""
        return _WORD.sub(
            lambda found: found[0] if _VERSION.fullmatch(found[0]) else self.word(found[0]), text
        )

    def _number(self, digits: str) -> str:
        if _NUMBER.fullmatch(digits):
            return digits
        return self.of(_LONG_NUMBER, digits)
