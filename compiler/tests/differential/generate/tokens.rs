//! Sources whose tokens were changed: of random models, and of the language cases in `fixtures/lang`.

use std::path::Path;

use crate::random::Random;
use crate::tree::{Case, Tree, text};

const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ":",
    "::",
    ",",
    ".",
    "=",
    "+=",
    "==",
    "<",
    ">",
    "+",
    "-",
    "*",
    "/",
    "%",
    "**",
    "?",
    "--",
    "->",
    "entity",
    "extends",
    "end",
    "implementation",
    "implement",
    "using",
    "when",
    "parents",
    "for",
    "in",
    "if",
    "elif",
    "else",
    "not",
    "and",
    "or",
    "is defined",
    "is",
    "defined",
    "true",
    "false",
    "null",
    "undef",
    "dict",
    "list",
    "string",
    "int",
    "typedef",
    "as",
    "matching",
    "index",
    "import",
    "self",
    "std::none",
    "std::print",
    "matching /a+/",
    "matching /(/",
    "1",
    "0",
    "-1",
    "2.5",
    ".5",
    "1.",
    "a",
    "x",
    "A",
    "B",
    "a-b",
    "\"a\"",
    "'b'",
    "\"\"\"d\"\"\"",
    "f\"{x}\"",
    "f\"{\"",
    "r\"\\d\"",
    "\"{{x}}\"",
    "\"{{x.y}}\"",
    "\"\\q\"",
    "\"",
    "@",
    "#",
    "//",
    "[0:1]",
    "[0:]",
    "[1]",
    "[:2]",
    "[2:1]",
    "\n",
    "\n\n",
    ";",
];

/// The language cases, as a corpus.
pub struct Seeds {
    cases: Vec<Vec<(String, String)>>,
}

impl Seeds {
    pub fn read(root: &Path) -> Self {
        let mut cases = Vec::new();
        for path in files(root) {
            let is_module = path
                .ancestors()
                .skip(1)
                .any(|parent| parent.with_extension("cf").is_file());
            if path.extension().is_none_or(|extension| extension != "cf") || is_module {
                continue;
            }
            let Ok(main) = std::fs::read_to_string(&path) else {
                continue;
            };
            // What never ends by itself takes the reference all its time; Python code is not run here; passwords are kept in
            // files, and we have none here.
            if path.ends_with("an_endless_chain_of_instances_is_an_error.cf")
                || main.contains("std::generate_password")
            {
                continue;
            }
            let mut case = vec![("main.cf".to_owned(), without_comments(&main))];
            let mut project = "name: case\nmodulepath: libs\n".to_owned();
            for line in main.lines().filter_map(|line| line.split_once("#% ")) {
                project.push_str(line.1);
                project.push('\n');
            }
            case.push(("project.yml".to_owned(), project));
            let modules = path.with_extension("");
            for module in files(&modules) {
                let (Ok(name), Ok(source)) = (
                    module.strip_prefix(&modules),
                    std::fs::read_to_string(&module),
                ) else {
                    continue;
                };
                case.push((format!("libs/{}", name.to_string_lossy()), source));
            }
            // Modules that come with us, but not with the reference.
            let is_ours = |source: &str| {
                let mut lines = source.lines().map(str::trim_start);
                lines.any(|line| line.starts_with("import fs") || line.starts_with("import exec"))
            };
            if case
                .iter()
                .all(|(path, source)| !path.ends_with(".py") && !is_ours(source))
            {
                cases.push(case);
            }
        }
        Seeds { cases }
    }

    /// A case with a few changes; every tenth has none.
    pub fn mutated(&self, random: &mut Random) -> Case {
        let seed = random.pick(&self.cases);
        let mut case = Case {
            files: Vec::new(),
            export: false,
        };
        for (path, source) in seed {
            let is_source = path.ends_with(".cf");
            let tree = if is_source {
                lines(source)
            } else {
                text(source.clone())
            };
            case.files.push((path.clone(), tree));
        }
        case.export = random.chance(25);
        if random.chance(10) {
            return case;
        }
        if random.chance(35) {
            let other = lines(&random.pick(&self.cases)[0].1);
            splice(&mut case.files[0].1, other, random);
        }
        if random.chance(75) {
            case = mutated(&case, random);
        }
        case
    }
}

fn files(directory: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

/// The expectations of a language case are comments at the end of lines: they go.
fn without_comments(source: &str) -> String {
    let cut = |line: &str| match ["#>", "#!", "#~", "#%", "#@"]
        .iter()
        .filter_map(|mark| line.find(mark))
        .min()
    {
        Some(at) => line[..at].trim_end().to_owned(),
        None => line.to_owned(),
    };
    source.lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// A source as lines of tokens.
fn lines(source: &str) -> Tree {
    let items = source
        .lines()
        .map(|line| Tree::Items {
            separator: "",
            items: tokens(line),
        })
        .collect();
    Tree::Items {
        separator: "\n",
        items,
    }
}

/// Pieces that are tokens or nearly so; together they are the line again.
fn tokens(line: &str) -> Vec<Tree> {
    let class = |c: char| match c {
        c if c.is_alphanumeric() || c == '_' => 0,
        c if c.is_whitespace() => 1,
        '=' | '<' | '>' | '!' | ':' | '-' | '*' | '+' => 2,
        _ => 3,
    };
    let mut found: Vec<String> = Vec::new();
    let mut last = 3;
    for c in line.chars() {
        match found.last_mut() {
            Some(token) if class(c) == last && last != 3 => token.push(c),
            _ => found.push(c.to_string()),
        }
        last = class(c);
    }
    found.into_iter().map(text).collect()
}

/// Puts lines of another source among those of this one.
fn splice(tree: &mut Tree, other: Tree, random: &mut Random) {
    let theirs = other.children();
    if theirs.is_empty() {
        return;
    }
    let start = random.below(theirs.len());
    let end = (start + random.between(1, 8)).min(theirs.len());
    let ours = tree.children_mut();
    let at = random.below(ours.len() + 1);
    ours.splice(at..at, theirs[start..end].iter().cloned());
}

/// A case with one to three tokens changed in its main file.
pub fn mutated(case: &Case, random: &mut Random) -> Case {
    let mut case = case.clone();
    let sources: Vec<usize> = (0..case.files.len())
        .filter(|at| case.files[*at].0.ends_with(".cf"))
        .collect();
    let at = *random.pick(&sources);
    let source = case.files[at].1.render();
    let mut tree = lines(&source);
    for _ in 0..random.between(1, 3) {
        mutate(&mut tree, random);
    }
    case.files[at].1 = tree;
    case
}

fn mutate(tree: &mut Tree, random: &mut Random) {
    let rows = tree.children_mut();
    if rows.is_empty() {
        return;
    }
    let row = random.below(rows.len());
    match random.below(10) {
        0 => drop(rows.remove(row)),
        1 => {
            let copy = rows[row].clone();
            let to = random.below(rows.len() + 1);
            rows.insert(to, copy);
        }
        2 => {
            let other = random.below(rows.len());
            rows.swap(row, other);
        }
        change => {
            let donor = random.below(rows.len());
            let piece = match rows[donor].children() {
                tokens if !tokens.is_empty() && random.chance(50) => random.pick(tokens).clone(),
                _ => text(*random.pick(PIECES)),
            };
            let tokens = rows[row].children_mut();
            if tokens.is_empty() {
                tokens.push(piece);
                return;
            }
            let at = random.below(tokens.len());
            match change {
                3 | 4 => drop(tokens.remove(at)),
                5 | 6 => tokens[at] = piece,
                7 => {
                    let other = random.below(tokens.len());
                    tokens.swap(at, other);
                }
                8 => tokens.insert(at, Tree::Parts(vec![text(" "), piece, text(" ")])),
                _ => {
                    let copy = tokens[at].clone();
                    tokens.insert(at, copy);
                }
            }
        }
    }
}
