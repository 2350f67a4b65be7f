"""The commands of beanstalkd through greenstalk. One argument: the port of the server."""

import sys
import time

import greenstalk

ADDRESS = ("127.0.0.1", int(sys.argv[1]))


def connected(**options):
    return greenstalk.Client(ADDRESS, **options)


def refused(error, call, *arguments, **options):
    try:
        answer = call(*arguments, **options)
    except error:
        return
    raise AssertionError(f"{call.__name__}{arguments} answered {answer!r}, not {error.__name__}")


def priorities_and_delays_are_kept():
    with connected(use="order", watch="order") as client:
        late = client.put("late", priority=1, delay=1, ttr=9)
        low = client.put("low", priority=20)
        high = client.put("high", priority=10)
        assert client.peek_delayed().id == late and client.peek_ready().id == high
        stats = client.stats_job(late)
        assert stats["state"] == "delayed" and stats["tube"] == "order", stats
        assert (stats["pri"], stats["delay"], stats["ttr"]) == (1, 1, 9), stats
        began = time.monotonic()
        for expected in (high, low, late):
            job = client.reserve(timeout=5)
            assert job.id == expected, (job, expected)
            client.delete(job)
        assert 0.8 < time.monotonic() - began < 4
        refused(greenstalk.NotFoundError, client.delete, late)
        refused(greenstalk.TimedOutError, client.reserve, timeout=0)


def a_job_goes_through_its_states():
    with connected(use="states", watch="states") as client:
        number = client.put("körper", priority=5, ttr=60)
        job = client.reserve(timeout=5)
        assert (job.id, job.body) == (number, "körper")
        client.touch(job)
        assert client.stats_job(job)["state"] == "reserved"
        client.release(job, priority=3, delay=0)
        assert client.stats_job(job)["pri"] == 3
        job = client.reserve_job(number)
        client.release(job, delay=60)
        assert client.stats_job(job)["state"] == "delayed"
        client.kick_job(job)
        job = client.reserve(timeout=5)
        client.bury(job, priority=7)
        assert client.peek_buried().id == number
        refused(greenstalk.TimedOutError, client.reserve, timeout=0)
        refused(greenstalk.NotFoundError, client.touch, job)
        assert client.kick(10) == 1
        assert client.peek(number).body == "körper"
        stats = client.stats_job(number)
        counts = [stats[name] for name in ("reserves", "releases", "buries", "kicks", "pri")]
        assert stats["state"] == "ready" and counts == [3, 2, 1, 2, 7], stats
        client.delete(number)
        for call in (client.peek, client.stats_job, client.kick_job, client.reserve_job):
            refused(greenstalk.NotFoundError, call, number)


def a_time_to_run_ends():
    with connected(use="ttr", watch="ttr") as slow, connected(watch="ttr") as other:
        number = slow.put("x", ttr=1)
        lost = slow.reserve(timeout=5)
        job = other.reserve(timeout=5)
        assert lost.id == job.id == number
        assert other.stats_job(job)["timeouts"] == 1
        refused(greenstalk.NotFoundError, slow.touch, lost)
        # In the last second of the job its holder is told instead of kept waiting.
        refused(greenstalk.DeadlineSoonError, other.reserve, timeout=5)
        other.delete(job)


def a_client_that_leaves_gives_its_jobs_back():
    with connected(use="left", watch="left") as client:
        number = client.put("x", ttr=600)
        with connected(watch="left") as other:
            assert other.reserve(timeout=5).id == number
        client.delete(client.reserve(timeout=5))


def tubes_are_watched_ignored_and_paused():
    with connected() as client:
        assert client.using() == "default" and client.watching() == ["default"]
        assert client.watch("first") == 2 and client.watch("second") == 3
        assert client.ignore("default") == 2 and client.ignore("first") == 1
        refused(greenstalk.NotIgnoredError, client.ignore, "second")
        client.use("second")
        assert client.using() == "second" and client.watching() == ["second"]
        assert {"default", "second"} <= set(client.tubes())
        number = client.put("x")
        client.pause_tube("second", 1)
        stats = client.stats_tube("second")
        assert (stats["name"], stats["pause"]) == ("second", 1), stats
        assert stats["current-jobs-ready"] == 1 and stats["cmd-pause-tube"] == 1, stats
        refused(greenstalk.TimedOutError, client.reserve, timeout=0)
        job = client.reserve(timeout=5)
        assert job.id == number
        client.delete(job)
        refused(greenstalk.NotFoundError, client.stats_tube, "nobody-has-it")
        refused(greenstalk.NotFoundError, client.pause_tube, "nobody-has-it", 1)


def bodies_are_bytes_and_bounded():
    with connected(use="bytes", watch="bytes", encoding=None) as client:
        for body in (b"", b"\r\n", bytes(range(256)), b"x" * 65535):
            client.put(body)
            job = client.reserve(timeout=5)
            assert job.body == body
            client.delete(job)
        refused(greenstalk.JobTooBigError, client.put, b"x" * 65536)
        refused(greenstalk.TimedOutError, client.reserve, timeout=0)


def the_server_states_itself():
    with connected() as client:
        stats = client.stats()
        assert stats["max-job-size"] == 65535 and stats["cmd-put"] > 0, stats
        assert stats["current-jobs-reserved"] == 0 and stats["job-timeouts"] == 1, stats


for check in (
    priorities_and_delays_are_kept,
    a_job_goes_through_its_states,
    a_time_to_run_ends,
    a_client_that_leaves_gives_its_jobs_back,
    tubes_are_watched_ignored_and_paused,
    bodies_are_bytes_and_bounded,
    the_server_states_itself,
):
    print(check.__name__, flush=True)
    check()
