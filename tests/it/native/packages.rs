//! Packages of apt, from a source that the test makes.

use serde_json::json;

use crate::harness::skip;
use crate::machine::Machine;

/// A source of packages with `tool` in versions 1.0 and 2.0, and nothing else.
const SOURCE: &str = r#"set -e
mkdir -p /srv/repo && cd /srv/repo
for version in 1.0 2.0; do
    mkdir -p build/DEBIAN build/etc
    printf 'Package: steward-test-tool\nVersion: %s\nArchitecture: all\nMaintainer: A <a@example.org>\nDescription: a tool\n' $version > build/DEBIAN/control
    echo /etc/steward-test-tool.conf > build/DEBIAN/conffiles
    echo $version > build/etc/steward-test-tool.conf
    dpkg-deb --build build tool_$version.deb >/dev/null
done
: > Packages
for file in tool_*.deb; do
    dpkg-deb --field $file >> Packages
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $file $(stat -c %s $file) $(sha256sum $file | cut -d' ' -f1) >> Packages
done
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/* /etc/apt/apt.conf.d/*
echo 'deb [trusted=yes] file:/srv/repo ./' > /etc/apt/sources.list
"#;

#[test]
fn a_package_of_apt_is_installed_changed_and_removed() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh(SOURCE);
    let package =
        |more: &str| format!(r#"steward::Package(host=host, name="steward-test-tool"{more})"#);
    let version =
        || machine.sh("dpkg-query -W -f '${db:Status-Status} ${Version}' steward-test-tool");
    let event = machine.check(
        &package(r#", version="1.0", report_only=true"#),
        "non_compliant nochange",
    );
    assert_eq!(
        event["changes"],
        json!({"purged": {"current": true, "desired": false}})
    );
    machine.check(&package(r#", version="1.0""#), "deployed created");
    assert_eq!(version(), "installed 1.0");
    machine.check(&package(r#", version="1.0""#), "deployed nochange");
    machine.check(&package(""), "deployed nochange");
    let event = machine.check(&package(", latest=true"), "deployed updated");
    assert_eq!(
        event["changes"],
        json!({"version": {"current": "1.0", "desired": "2.0"}})
    );
    assert_eq!(version(), "installed 2.0");
    machine.check(&package(", latest=true"), "deployed nochange");
    machine.check(&package(r#", version="1.0""#), "deployed updated");
    assert_eq!(version(), "installed 1.0");
    machine.check(&package(", purged=true"), "deployed purged");
    assert_eq!(version(), "config-files 1.0");
    machine.check(&package(", purged=true"), "deployed nochange");
    machine.check(
        &package(", purged=true, remove_config=true"),
        "deployed purged",
    );
    assert_eq!(
        machine.sh("ls /etc/steward-test-tool.conf 2>/dev/null || echo gone"),
        "gone\n"
    );
    for (state, expected) in [
        ("installed", "deployed updated"),
        ("installed", "deployed nochange"),
        ("latest", "deployed nochange"),
        ("removed", "deployed updated"),
        ("removed", "deployed nochange"),
    ] {
        let model =
            format!(r#"std::Package(host=host, name="steward-test-tool", state="{state}")"#);
        machine.check(&model, expected);
    }
}

#[test]
fn a_package_that_can_not_be_had_and_an_interrupted_dpkg_are_told_and_mended() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh(SOURCE);
    for (resource, reason) in [
        (
            r#"steward::Package(host=host, name="no-such-package-anywhere")"#,
            "no package source of this host has the package no-such-package-anywhere",
        ),
        (
            r#"steward::Package(host=host, name="steward-test-tool", version="9")"#,
            "no package source of this host has version 9 of steward-test-tool; there is 2.0, 1.0",
        ),
    ] {
        let event = machine.check(resource, "failed nochange");
        let message = event["message"].as_str().unwrap();
        assert!(message.contains(reason), "{message}");
    }
    // As if it was killed between unpacking and configuring.
    machine.sh("dpkg --unpack /srv/repo/tool_2.0.deb");
    let event = machine.check(
        r#"steward::Package(host=host, name="steward-test-tool", version="2.0")"#,
        "deployed updated",
    );
    assert_eq!(
        event["changes"],
        json!({"state": {"current": "unpacked", "desired": "installed"}})
    );
}

/// Holds apt's lock of its lists, as another apt does that fetches them, until somebody has tried to have it. Locks of apt are
/// those of `fcntl`.
const HOLDER: &str = r#"set -e
printf '#!/bin/sh\n/usr/bin/apt-get "$@"\ncode=$?\ntouch /tmp/tried\nexit $code\n' > /usr/local/sbin/apt-get
chmod 755 /usr/local/sbin/apt-get
perl -e 'open(my $lists, ">>", "/var/lib/apt/lists/lock") or die;
    my $lock = pack("s s x4 q q l x4", 1, 0, 0, 0, 0); fcntl($lists, 6, $lock) or die;
    open(my $held, ">", "/tmp/held"); select(undef, undef, undef, 0.1) until -e "/tmp/tried"' > /dev/null 2>&1 &
for n in $(seq 100); do [ -e /tmp/held ] && break; sleep 0.1; done; [ -e /tmp/held ]
"#;

/// Given: another apt that fetches lists, which this one does not wait for by itself; and a package that somebody holds back.
/// Expected: the resource waits for the other apt; what is held stays, and the reason says who lets it go.
#[test]
fn another_apt_is_waited_for_and_what_is_held_back_stays() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh(SOURCE);
    machine.sh(HOLDER);
    let tool = |version: &str| {
        format!(r#"steward::Package(host=host, name="steward-test-tool", {version})"#)
    };
    machine.check(&tool(r#"version="1.0""#), "deployed created");
    machine.sh("apt-mark hold steward-test-tool");
    for change in [r#"version="2.0""#, "latest=true", "purged=true"] {
        let event = machine.check(&tool(change), "failed nochange");
        let message = event["message"].as_str().unwrap();
        assert!(
            message.contains("`apt-mark unhold` lets it go"),
            "{message}"
        );
    }
    machine.check(&tool(r#"version="1.0""#), "deployed nochange");
}

/// More packages of the source: one whose script fails, and its mended version, a good one, and one that only provides a name.
const MORE: &str = r#"set -e
cd /srv/repo
add() {
    rm -rf build && mkdir -p build/DEBIAN
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: A <a@example.org>\n%bDescription: a tool\n' $1 $2 "$4" > build/DEBIAN/control
    printf '#!/bin/sh\nexit %s\n' $3 > build/DEBIAN/postinst && chmod 755 build/DEBIAN/postinst
    dpkg-deb --build build $1_$2.deb >/dev/null
    dpkg-deb --field $1_$2.deb >> Packages
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $1_$2.deb $(stat -c %s $1_$2.deb) $(sha256sum $1_$2.deb | cut -d' ' -f1) >> Packages
}
add steward-test-broken 1.0 3 ''
add steward-test-broken 2.0 0 ''
add steward-test-good 1.0 0 'Provides: steward-test-virtual\n'
"#;

/// Given: a package whose script fails, so that dpkg cannot configure it. Expected: it fails; others are installed all the same, and
/// another version of it, or its removal, mends it.
#[test]
fn a_package_that_is_broken_is_in_the_way_of_no_other_and_can_be_replaced() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh(SOURCE);
    machine.sh(MORE);
    let broken =
        |more: &str| format!(r#"steward::Package(host=host, name="steward-test-broken"{more})"#);
    let event = machine.check(&broken(r#", version="1.0""#), "failed nochange");
    assert!(event.to_string().contains("error exit status 3"), "{event}");
    machine.check(
        r#"steward::Package(host=host, name="steward-test-good:amd64")"#,
        "deployed created",
    );
    machine.check(
        r#"steward::Package(host=host, name="steward-test-good")"#,
        "deployed nochange",
    );
    machine.check(&broken(r#", version="2.0""#), "deployed updated");
    machine.check(&broken(r#", version="1.0""#), "failed nochange");
    machine.check(&broken(", purged=true"), "deployed purged");
    let event = machine.check(
        r#"steward::Package(host=host, name="steward-test-virtual")"#,
        "failed nochange",
    );
    assert!(
        event.to_string().contains("may be a virtual package"),
        "{event}"
    );
}

/// The same of rpm.
const RPM_SOURCE: &str = r#"set -e
mkdir -p /srv/rpm /etc/yum.repos.d && cd /srv/rpm
for version in 1.0 2.0; do
    printf 'Name: steward-test-tool\nVersion: %s\nRelease: 1\nSummary: a tool\nLicense: MIT\nBuildArch: noarch\n%%description\na tool\n%%files\n' $version > tool.spec
    rpmbuild -bb --define '_rpmdir /srv/rpm' tool.spec >/dev/null 2>&1
done
createrepo_c . >/dev/null 2>&1
rm -f /etc/yum.repos.d/*
printf '[test]\nname=test\nbaseurl=file:///srv/rpm\ngpgcheck=0\n' > /etc/yum.repos.d/test.repo
"#;

#[test]
fn a_package_of_dnf_is_installed_changed_and_removed() {
    let Some(machine) = Machine::start() else {
        return;
    };
    let wanted = "command -v dnf rpm rpmbuild createrepo_c >/dev/null && echo yes || true";
    if machine.sh(wanted) != "yes\n" {
        skip("dnf, rpm and createrepo-c are not installed");
        return;
    }
    machine.sh(RPM_SOURCE);
    let package = |more: &str| {
        format!(r#"steward::Package(host=host, name="steward-test-tool", provider="dnf"{more})"#)
    };
    let version = || machine.sh("rpm -q --qf '%{VERSION}' steward-test-tool || true");
    machine.check(&package(r#", version="1.0""#), "deployed created");
    assert_eq!(version(), "1.0");
    machine.check(&package(r#", version="1.0-1""#), "deployed nochange");
    let event = machine.check(&package(", latest=true"), "deployed updated");
    assert_eq!(
        event["changes"],
        json!({"version": {"current": "1.0-1", "desired": "2.0-1"}})
    );
    machine.check(&package(", latest=true"), "deployed nochange");
    machine.check(&package(r#", version="1.0""#), "deployed updated");
    assert_eq!(version(), "1.0");
    machine.check(&package(", purged=true"), "deployed purged");
    machine.check(&package(", purged=true"), "deployed nochange");
    let event = machine.check(&package(r#", version="9""#), "failed nochange");
    let message = event["message"].as_str().unwrap();
    assert!(
        message.contains("No match for argument: steward-test-tool-9"),
        "{message}"
    );
}

/// Given: packages for another architecture, one of which there is for the machine's own, too. Expected: a plain name means the own
/// one where there is one, as it does to apt, so that the other is neither taken for it nor said to be removed.
#[test]
fn a_plain_name_is_the_package_for_the_own_architecture() {
    let Some(machine) = Machine::start() else {
        return;
    };
    machine.sh(SOURCE);
    machine.sh(
        r#"set -e
own=$(dpkg --print-architecture)
other=i386
if [ $own = i386 ]; then other=amd64; fi
dpkg --add-architecture $other
cd /srv/repo
for one in both:$own both:$other only:$other; do
    mkdir -p build/DEBIAN
    printf 'Package: steward-test-%s\nVersion: 1.0\nArchitecture: %s\nMaintainer: A <a@example.org>\nDescription: a tool\n' ${one%:*} ${one#*:} > build/DEBIAN/control
    rm -rf build/etc build/DEBIAN/conffiles
    file=${one%:*}_${one#*:}.deb
    dpkg-deb --build build $file >/dev/null
    dpkg-deb --field $file >> Packages
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $file $(stat -c %s $file) $(sha256sum $file | cut -d' ' -f1) >> Packages
done
apt-get update >/dev/null
dpkg --install both_$other.deb"#,
    );
    let installed = || {
        machine.sh(
            r#"dpkg-query -W -f '${Package} ${Architecture} ${db:Status-Status}\n' 'steward-test-*' |
               grep ' installed$' | sed "s/ $(dpkg --print-architecture) / own /; s/ \(i386\|amd64\) / other /""#,
        )
    };
    let package =
        |name: &str, more: &str| format!(r#"steward::Package(host=host, name="{name}"{more})"#);
    machine.check(
        &package("steward-test-both", ", purged=true"),
        "deployed nochange",
    );
    assert_eq!(installed(), "steward-test-both other installed\n");
    // It takes the place of the other one.
    machine.check(&package("steward-test-both", ""), "deployed created");
    machine.check(&package("steward-test-both", ""), "deployed nochange");
    assert_eq!(installed(), "steward-test-both own installed\n");
    machine.check(
        &package("steward-test-both", ", purged=true"),
        "deployed purged",
    );
    machine.check(&package("steward-test-only", ""), "deployed created");
    machine.check(&package("steward-test-only", ""), "deployed nochange");
    machine.check(
        &package("steward-test-only", ", purged=true"),
        "deployed purged",
    );
    machine.check(
        &package("steward-test-only", ", purged=true"),
        "deployed nochange",
    );
}
