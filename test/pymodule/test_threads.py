"""The interpreter's lock is released: two threads run two predictions, and get what one gets."""

import threading
import time

import ddlsim
from conftest import JOB
from ddlsim import _ddlsim


def test_two_predictions_run_at_once():
    """Calls within C++ are counted: under the interpreter's lock there could never be two."""
    job = {**JOB, "strategy": "allreduce", "fidelity": "event", "straggler": 1.3}
    end = time.monotonic() + 30
    answers, seen = [], [0]
    _ddlsim.most_at_once()

    def ask():
        while time.monotonic() < end and max(seen) < 2:
            answers.append(ddlsim.predict(job).step_time_s)
            seen.append(_ddlsim.most_at_once())

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(seen) == 2
    assert set(answers) == {ddlsim.predict(job).step_time_s}


def test_threads_share_a_catalogue():
    jobs = [{**JOB, "nodes": nodes, "batch": batch} for nodes in (1, 2, 4, 8) for batch in (16, 32, 64)]
    expected = [ddlsim.predict(job, data=ddlsim.Catalog(ddlsim._default.root)).to_dict() for job in jobs]
    shared = ddlsim.Catalog(ddlsim._default.root)
    wrong = []

    def ask(offset):
        for i in range(60):
            at = (i * 7 + offset) % len(jobs)
            if ddlsim.predict(jobs[at], data=shared).to_dict() != expected[at]:
                wrong.append(at)

    threads = [threading.Thread(target=ask, args=(offset,)) for offset in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
