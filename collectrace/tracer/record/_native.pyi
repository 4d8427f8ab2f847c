from typing import Any

def bind(base: int, prime: int, /, **names: object) -> None: ...

class Kernel:
    def __init__(
        self,
        in_python: Any,
        session: Any,
        reader: Any,
        redispatch: Any,
        remaining: Any,
        key: Any,
        /,
    ) -> None: ...
    def __call__(self, keyset: Any, *args: Any) -> Any: ...

class Public:
    def __init__(
        self,
        in_python: Any,
        session: Any,
        wrapped: Any,
        name: str,
        position: int,
        total: Any,
        member: Any,
        track: Any,
        /,
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Issuer:
    def __init__(self, recorder: object, /) -> None: ...
    def __call__(self, reader: Any, args: tuple[Any, ...], above: int = 1) -> Any: ...
