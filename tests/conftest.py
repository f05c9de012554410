"""For all tests. None of them fails for being slow: the machines that run them share their cores."""

import importlib.util
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells leave it for what they start in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # else nothing that the tests start could be interrupted

if importlib.util.find_spec("hypothesis") is not None:  # the engine's environment, where tests/engine runs, has none
    from hypothesis import HealthCheck, settings

    settings.register_profile("shared-cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("shared-cores")
