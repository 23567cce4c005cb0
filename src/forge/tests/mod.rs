//! Deliveries as forges send them, from `fixtures/webhooks`, and as nobody should.

mod hook;
mod hostile;
mod signature;

use std::fs;
use std::path::{Path, PathBuf};

use super::*;

const SECRET: &[u8] = b"fixture-webhook-secret";

/// A delivery to change before it is checked.
#[derive(Clone)]
struct Delivery {
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Delivery {
    fn of(name: &str) -> Delivery {
        let path = fixtures().join(name);
        let headers = fs::read_to_string(path.with_extension("headers")).unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.as_bytes().to_owned())
        };
        Delivery {
            headers: headers.lines().map(header).collect(),
            body: fs::read(path.with_extension("json")).unwrap(),
        }
    }

    fn push(body: &str) -> Delivery {
        Delivery {
            body: body.as_bytes().to_owned(),
            ..Delivery::of("github/push_branch")
        }
    }

    fn without(mut self, name: &str) -> Delivery {
        self.headers
            .retain(|(found, _)| !found.eq_ignore_ascii_case(name));
        self
    }

    fn with(mut self, name: &str, value: &[u8]) -> Delivery {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    fn set(self, name: &str, value: &[u8]) -> Delivery {
        self.without(name).with(name, value)
    }

    fn headers<'a>(&'a self) -> impl Fn(&str) -> Vec<&'a [u8]> {
        move |name| {
            let matching = self
                .headers
                .iter()
                .filter(|(found, _)| found.eq_ignore_ascii_case(name));
            matching.map(|(_, value)| value.as_slice()).collect()
        }
    }

    fn verify(&self, forge: Forge) -> Result<(), SignatureError> {
        verify(forge, SECRET, &self.headers(), &self.body)
    }

    fn parse(&self, forge: Forge) -> Result<Hook, Error> {
        parse(forge, &self.headers(), &self.body)
    }

    fn header<'a>(&'a self, name: &str) -> &'a str {
        std::str::from_utf8(self.headers()(name)[0]).unwrap()
    }
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/webhooks")
}

fn forge_of(name: &str) -> Forge {
    name.split('/').next().unwrap().parse().unwrap()
}

fn all_fixtures() -> Vec<String> {
    let mut names = Vec::new();
    for forge in ["github", "gitea"] {
        for entry in fs::read_dir(fixtures().join(forge)).unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                names.push(format!(
                    "{forge}/{}",
                    path.file_stem().unwrap().to_str().unwrap()
                ));
            }
        }
    }
    names.sort();
    names
}
