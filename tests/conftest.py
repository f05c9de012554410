"""For all tests. None of them fails for being slow: the machines that run them share their cores."""

import importlib.util

if importlib.util.find_spec("hypothesis") is not None:  # the engine's environment, where tests/engine runs, has none
    from hypothesis import HealthCheck, settings

    settings.register_profile("shared-cores", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("shared-cores")
