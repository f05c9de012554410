#!/bin/sh
# pip_install.sh PYTHON ARGUMENTS…: pip install for that interpreter. Where ./wheels holds pip's own wheel nothing else is
# asked, so a build needs no network; and no pip in the image either: Debian's python3 has none, nor ensurepip.
set -eu
python=$1
shift
pip_wheel=$(find wheels -name 'pip-*.whl' | sort | tail -n 1)
if [ -n "$pip_wheel" ]; then
    exec "$python" "$pip_wheel/pip" install --no-index --find-links wheels \
        --no-cache-dir --disable-pip-version-check --root-user-action ignore --progress-bar off "$@"
fi
exec python3 -m pip --python "$python" install \
    --no-cache-dir --disable-pip-version-check --root-user-action ignore --progress-bar off "$@"
