"""A bar of the passes over a stream."""

from typing import Any


class Bar:
    """By tqdm, or nothing."""

    def __init__(self, shown: bool):
        self._bar = None
        if shown:
            try:
                import tqdm
            except ImportError:
                raise ImportError('progress: takes tqdm: pip install "jaxlin[progress]"') from None
            self._bar = tqdm.tqdm(unit="pass")

    def moved(self, done: int | None = None, **said: Any) -> None:
        if self._bar is not None:
            self._bar.update(1 if done is None else done - self._bar.n)
            self._bar.set_postfix(
                {n: f"{v:.1e}" if isinstance(v, float) else v for n, v in said.items()}
            )

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
