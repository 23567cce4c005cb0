//! The rooms of the three crates: the folders and files at the top of `src`, and which of them may use which.
//!
//! A room uses rooms of lower layers only, never one of its own layer or above, so there is no circle. Where the arrow that
//! you want is missing, the two meet in the store and wake each other through handles. When a rule makes code worse, change
//! the layers here, and say why. `cargo run --example rooms` prints the arrows as they are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A crate of the workspace, and its rooms by layer, from the top down.
pub struct Layers {
    pub src: &'static str,
    layers: &'static [&'static [&'static str]],
}

pub const SERVER: Layers = Layers {
    src: "src",
    layers: &[
        &["fuzzing"],
        &["cli"],
        &["server"],
        &["api"],
        // What a request handler may hold.
        &["app"],
        &["config"],
        &["watch"],
        // Has a list of what each of those below removes.
        &["gc"],
        // These do not know each other: the last two meet in the store, and an agent is on another machine.
        &["agent", "compile", "deploy"],
        // One set of rules for both of them and for the API.
        &["facts", "lsm", "metrics"],
        &["executor", "modules"],
        &["python"],
        &["files", "forge", "git", "observe"],
        &["store"],
        &["process"],
        &["sandbox"],
        &["domain"],
    ],
};

pub const COMPILER: Layers = Layers {
    src: "compiler/src",
    layers: &[
        &["fuzzing", "ide"],
        &["check"],
        &["analysis"],
        &["export"],
        &["runtime"],
        &["python_host", "stdlib", "template"],
        &["resources"],
        &["hir"],
        &["project", "types"],
        &["format"],
        &["syntax"],
        // The parser says what is wrong with a regular expression, so these are below it.
        &["pattern"],
        &["diagnostics"],
        &["breadcrumb"],
        &["world"],
        &["builtin", "protocol", "services", "span", "yaml"],
        &["intern"],
        &["file_stamp", "hash", "pages", "plain_file", "shown_url"],
    ],
};

pub const LSM: Layers = Layers {
    src: "lsm/src",
    layers: &[
        &["order", "people"],
        &["change", "lifecycle", "ownership", "select"],
        &["attributes"],
        &["instance"],
        &["definition", "dict_path"],
        &["problem"],
    ],
};

/// From a room to those that it uses, each with the files that do.
pub type Arrows = BTreeMap<String, BTreeMap<String, BTreeSet<PathBuf>>>;

impl Layers {
    fn layer_of(&self, room: &str) -> Option<usize> {
        self.layers.iter().position(|layer| layer.contains(&room))
    }

    /// The rooms as they are: folders and files at the top, but for the crate's root and its own types.
    fn rooms(&self, root: &Path) -> BTreeSet<String> {
        let entries = fs::read_dir(root.join(self.src)).expect("the sources are there");
        let names = entries
            .flatten()
            .map(|entry| entry.path().with_extension(""));
        let names = names.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()));
        names
            .filter(|name| {
                !["lib", "main", "api"].contains(&name.as_str()) || is_room(root, self, name)
            })
            .collect()
    }

    pub fn arrows(&self, root: &Path) -> Arrows {
        let mut arrows = Arrows::new();
        for room in self.rooms(root) {
            let top = root.join(self.src).join(&room);
            let mut files = Vec::new();
            sources(&top, &mut files);
            files.extend(Some(top.with_extension("rs")).filter(|file| file.is_file()));
            for file in files {
                let text = fs::read_to_string(&file).expect("a source is text");
                for used in used_rooms(&text) {
                    if used != room && self.layer_of(&used).is_some() {
                        let files = arrows.entry(room.clone()).or_default().entry(used);
                        files.or_default().insert(file.clone());
                    }
                }
            }
        }
        arrows
    }
}

/// The server has a room `api`; the compiler's `api.rs` has the types of its own surface.
fn is_room(root: &Path, layers: &Layers, name: &str) -> bool {
    root.join(layers.src).join(name).is_dir()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            found.push(path);
        }
    }
}

/// What follows `crate::` in a text, comments left out: `crate::{a::B, c}` names two rooms.
fn used_rooms(text: &str) -> BTreeSet<String> {
    // Tests may look up from where they stand.
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let code = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut found = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        let Some(list) = rest.strip_prefix('{') else {
            found.extend(name_at(rest));
            continue;
        };
        let mut depth = 0;
        let mut is_start = true;
        for (at, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => is_start = true,
                c if is_start && !c.is_whitespace() => {
                    found.extend(name_at(&list[at..]));
                    is_start = false;
                }
                _ => {}
            }
        }
    }
    found
}

fn name_at(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
#[track_caller]
fn check(layers: &Layers) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for room in layers.rooms(root) {
        assert!(
            layers.layer_of(&room).is_some(),
            "{}/{room}: say in which layer it is",
            layers.src
        );
    }
    let mut wrong = Vec::new();
    for (room, uses) in layers.arrows(root) {
        for (used, files) in uses {
            if layers.layer_of(&used) <= layers.layer_of(&room) {
                wrong.push(format!("`{room}` may not use `{used}`: {files:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_of_the_server_use_lower_ones_only() {
    check(&SERVER);
}

#[test]
fn rooms_of_the_compiler_use_lower_ones_only() {
    check(&COMPILER);
}

#[test]
fn rooms_of_services_use_lower_ones_only() {
    check(&LSM);
}

/// The first column of a table of rooms: `| `api`, `app` | ... |` names two.
#[cfg(test)]
fn rooms_of_table(page: &str, title: &str) -> BTreeSet<String> {
    let table = page.split(title).nth(1).expect("the page has the table");
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    let columns = rows.filter_map(|row| row.split('|').nth(1));
    let names = columns.flat_map(|column| column.split('`').skip(1).step_by(2));
    names.map(str::to_owned).collect()
}

#[test]
fn the_map_names_every_room() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("the map is there");
    for layers in [SERVER, COMPILER, LSM] {
        let mut rooms = layers.rooms(root);
        // What the fuzz targets reach.
        rooms.remove("fuzzing");
        let title = format!("| room of `{}` | what it owns |", layers.src);
        assert_eq!(rooms_of_table(&page, &title), rooms, "{}", layers.src);
    }
}

#[test]
fn lists_of_rooms_are_read() {
    let text = "use crate::{a::{B, C}, d, e::F};\n// crate::g\nlet x = crate::h::i();";
    let expected = ["a", "d", "e", "h"].map(str::to_owned);
    assert_eq!(used_rooms(text), BTreeSet::from(expected));
}
