#!/bin/sh
# Checks the unit of the server: syntax, known settings, and that it stays confined.
# Without systemd-analyze this is skipped aloud, unless CI=true: then it fails.
set -eu

# The exposure that the units have, in tenths: the tool passes what is equal, and fails what is more.
threshold=11
agent_threshold=11

cd "$(dirname -- "$0")"
if ! command -v systemd-analyze >/dev/null 2>&1; then
    echo "SKIPPED: systemd-analyze is not installed; the unit was not checked" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# $2: a unit, if it is not that of the server.
# A machine with nothing but the unit and a program in its place. `verify` only warns of settings it does not know, so
# any word of it that names our unit is a failure.
verify() {
    if ! words=$(systemd-analyze verify --recursive-errors=no --man=no --root="$root" "${2:-steward.service}" 2>&1) ||
        printf '%s\n' "$words" | grep -q 'steward'; then
        printf '%s\n' "$words" >&2
        echo "FAILED: $1 is not a correct unit" >&2
        exit 1
    fi
}

units="$root/etc/systemd/system"
mkdir -p "$units/steward.service.d" "$root/usr/bin" "$root/usr/lib/systemd"
cp /bin/true "$root/usr/bin/steward"
[ ! -d /usr/lib/systemd/system ] || cp -r /usr/lib/systemd/system "$root/usr/lib/systemd/"
cp steward.service "$units/"

# The check itself must work: a setting that does not exist has to be noticed.
printf '[Service]\nNoSuchSetting=yes\n' >"$units/steward.service.d/wrong.conf"
if (verify "a wrong unit") >/dev/null 2>&1; then
    echo "FAILED: this systemd-analyze does not notice wrong settings" >&2
    exit 1
fi
rm "$units/steward.service.d/wrong.conf"

verify steward.service
systemd-analyze security --offline=yes --no-pager --root="$root" --threshold=$threshold steward.service >"$root/report" || {
    grep -v '✓' "$root/report" >&2
    echo "FAILED: the unit is more exposed than $threshold tenths" >&2
    exit 1
}
tail -n 1 "$root/report"

# An agent changes its machine as root, so its unit confines little; it has to be correct.
cp steward-agent.service "$units/"
verify steward-agent.service steward-agent.service
echo "steward-agent.service is correct"

# One that changes other devices only needs nothing of its machine, and is confined as the server is.
mkdir "$units/steward-agent.service.d"
for example in steward-agent.service.d/*.example; do
    cp "$example" "$units/steward-agent.service.d/example.conf"
    verify "$example" steward-agent.service
    systemd-analyze security --offline=yes --no-pager --root="$root" --threshold=$agent_threshold steward-agent.service >"$root/report" || {
        grep -v '✓' "$root/report" >&2
        echo "FAILED: with $example the agent is more exposed than $agent_threshold tenths" >&2
        exit 1
    }
    tail -n 1 "$root/report"
done

for example in steward.service.d/*.example; do
    cp "$example" "$units/steward.service.d/example.conf"
    verify "$example"
    echo "$example is a correct drop-in"
done
