"""Counts what jax traces and compiles, by its own events: each is reported to the process."""

import contextlib

import jax
import jax.monitoring

EVENTS = []


def _listen(event, duration, **details):
    if event.endswith(("jaxpr_trace_duration", "backend_compile_duration")):
        EVENTS.append(f"{event.rsplit('/', 1)[1]} of {details.get('fun_name')}")


jax.monitoring.register_event_duration_secs_listener(_listen)


@contextlib.contextmanager
def compiling_nothing(but=()):
    """No tracing and no compilation, but for functions of these names."""
    before = len(EVENTS)
    yield
    found = [
        event
        for event in EVENTS[before:]
        if event.split(" of ")[1].removeprefix("jit(").rstrip(")") not in but
    ]
    assert not found, found
