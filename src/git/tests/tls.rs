use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use super::*;

/// A server with a certificate that nobody vouches for. `None` where there is no `openssl`.
fn untrusted(dir: &Path) -> Option<(Child, u16)> {
    let (key, certificate) = (dir.join("key.pem"), dir.join("certificate.pem"));
    let made = Command::new("openssl")
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args([
            "-subj",
            "/CN=steward test",
            "-addext",
            "subjectAltName=DNS:localhost,IP:127.0.0.1",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .stderr(Stdio::null())
        .status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: openssl cannot make a certificate here");
        return None;
    }
    let mut child = Command::new("openssl")
        .args([
            "s_server",
            "-accept",
            "127.0.0.1:0",
            "-naccept",
            "2",
            "-www",
            "-key",
        ])
        .arg(&key)
        .arg("-cert")
        .arg(&certificate)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let accept = lines
        .find_map(|line| line.strip_prefix("ACCEPT ").map(str::to_owned))
        .unwrap();
    let port = accept.rsplit(':').next().unwrap().trim().parse().unwrap();
    // Goes on reading, so that the server never blocks on what it prints.
    std::thread::spawn(move || lines.count());
    Some((child, port))
}

/// Input: a self-signed certificate (docs/reference/security.md § 3.19). Answer: refused.
#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut server, port)) = untrusted(dir.path()) else {
        return;
    };
    let login = Login {
        user: "bot".to_owned(),
        token: "canary".to_owned(),
    };
    let credentials = Credentials {
        login: Some(login),
        ..Credentials::default()
    };
    for host in ["localhost", "127.0.0.1"] {
        let url = format!("https://{host}:{port}/x");
        let url = RepositoryUrl::parse(&url, &AddressPolicy::default()).unwrap();
        let mirror = Mirror::open_or_create(&dir.path().join("mirrors"), &url).unwrap();
        let error = mirror
            .fetch(None, &credentials, &FetchOptions::default())
            .unwrap_err();
        let named =
            matches!(&error, Error::Unreachable { cause, .. } if cause.contains("certificate"));
        assert!(named && !error.to_string().contains("canary"), "{error}");
    }
    let _ = server.kill();
    let _ = server.wait();
}
