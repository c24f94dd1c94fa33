"""Ctrl-C ends a long sweep at once, and the module goes on."""

import os
import signal
import threading
import time

import ddlsim
import pytest


def test_a_sweep_is_interrupted():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ddlsim.sweep(model="resnet50", node="dgx-a100", nodes="1..999:+1", batch="1..999:+1", threads=1)
    assert time.monotonic() - start < 10
    assert len(ddlsim.sweep(model="resnet50", node="dgx-a100", nodes=[1, 2])) == 2
