# What a machine is, one KEY=VALUE a line. Changes nothing.
python=
for each in python3.14 python3.13 python3.12 python3.11 python3; do
    if "$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$each
        break
    fi
done
echo "python=$python"
if [ -n "$python" ]; then
    echo "version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    "$python" -c 'import venv, ensurepip' 2>/dev/null && echo "venv=yes"
else
    echo "version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)"
fi
echo "system=$(uname -s)"
echo "machine=$(uname -m)"
echo "libc=$(getconf GNU_LIBC_VERSION 2>/dev/null)"
echo "free_kib=$(df -Pk "$HOME" | awk 'NR == 2 { print $4 }')"
echo "is_root=$([ "$(id -u)" = 0 ] && echo yes)"
echo "systemd=$([ -d "${PARTITA_SYSTEMD:-/run/systemd/system}" ] && echo yes)"
