# Install what lies in ~/partita/incoming, without any network. Arguments: Python, release, systemd.
# The running release stays whole until the new one is: "current" is a link that is replaced at once.
set -eu
home=$HOME/partita
release=$home/releases/$2
mkdir -p "$home/releases"
last=$(readlink "$home/current" 2>/dev/null || true)
installed=

undo() {
    if [ -z "$installed" ]; then rm -rf "$release"; fi
    rm -rf "$home/incoming"
}
trap undo EXIT

rm -rf "$release"
"$1" -m venv "$release"
"$release/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir \
    --no-index --find-links "$home/incoming/wheels" partita
"$release/bin/partita" --version
umask 077
for file in member.join flags; do
    if [ -e "$home/incoming/$file" ]; then mv "$home/incoming/$file" "$home/$file"; fi
done
umask 022
ln -sfn "$release" "$home/next"
mv -T "$home/next" "$home/current"
installed=yes
case $3 in
root) units=/etc/systemd/system systemctl="systemctl" ;;
user) units=$HOME/.config/systemd/user systemctl="systemctl --user" ;;
*) units=$home systemctl= ;;
esac
mkdir -p "$units"
mv "$home/incoming/partita-worker.service" "$units/partita-worker.service"
if [ -n "$systemctl" ]; then
    if [ "$3" = user ]; then loginctl enable-linger || echo "note: it ends with its user's last session"; fi
    $systemctl daemon-reload
    $systemctl enable --quiet partita-worker
    $systemctl restart partita-worker
fi
# The last release stays, for a worker that still runs of it, and to go back to.
for old in "$home"/releases/*; do
    if [ "$old" != "$release" ] && [ "$old" != "$last" ]; then rm -rf "$old"; fi
done
