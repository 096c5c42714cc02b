from rocketmq_py.core.consumer.worker_scaling import WorkerScaling


def test_a_new_or_fast_listener_gets_one_worker():
    width = WorkerScaling(20)
    assert width.wanted(0) == 0
    assert width.wanted(1000) == 1
    width.record(1000, 0.001)
    assert width.wanted(1000) == 1


def test_a_slow_listener_gets_a_worker_for_every_call_that_waits_up_to_the_limit():
    width = WorkerScaling(20)
    width.record(1, 0.1)
    assert width.wanted(5) == 5
    assert width.wanted(1000) == 20


def test_the_worker_count_shrinks_when_the_listener_gets_faster():
    width = WorkerScaling(20)
    width.record(1, 0.1)
    for _ in range(100):
        width.record(32, 32 * 1e-6)
    assert width.wanted(32) == 1
    width.record(0, 5.0)
    assert width.wanted(32) == 1


def test_a_stalled_pool_is_detected():
    width = WorkerScaling(4)
    assert not width.stalled((0, 1))
    assert width.stalled((0, 1))
    assert not width.stalled((0, 2))
