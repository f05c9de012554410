"""Is the production service ready? Asked over HTTP, at the address that its owner names."""

import urllib.error
import urllib.request

LIMIT_S = 10.0


def answers(url: str) -> bool:
    """True if the address answers with a 2xx status within some seconds. Redirections are followed, proxies not used:
    the service is on this host or near it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=LIMIT_S) as reply:
            return 200 <= int(reply.status) < 300
    except (OSError, urllib.error.URLError, ValueError):
        return False
    except Exception as problem:
        if type(problem).__module__ == "http.client":  # half an answer, from a server that is just starting
            return False
        raise
