//! Prints how large files and functions are, and how much of the code is explained, room by room:
//! `cargo run --example sizes`.
//!
//! Tests are left out: `tests.rs`, folders of that name, and what follows `#[cfg(test)]` in a file. Code is what is neither
//! blank nor comment. The source is read as `cargo fmt` leaves it, so a function ends with the first brace in its own column.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The lengths that CONTRIBUTING.md asks for, and the one that the lint `too_many_lines` allows.
const LONG_FILE: usize = 400;
const LONG_FUNCTION: usize = 60;
const LONGEST_FUNCTION: usize = 100;

/// A source file without its tests.
struct File {
    path: PathBuf,
    n_lines: usize,
    n_code: usize,
    n_comments: usize,
    functions: Vec<Function>,
}

struct Function {
    name: String,
    n_lines: usize,
}

fn main() -> std::io::Result<()> {
    for crate_name in ["src", "compiler/src", "lsm/src"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(crate_name);
        let mut files = Vec::new();
        read_folder(&folder, &mut files)?;
        let mut rooms: BTreeMap<String, Vec<&File>> = BTreeMap::new();
        for file in &files {
            let room = file.path.iter().next().unwrap_or_default();
            let room = room.to_string_lossy().trim_end_matches(".rs").to_owned();
            rooms.entry(room).or_default().push(file);
        }
        println!(
            "{crate_name:<16}  files   code  comments  functions  over {LONG_FUNCTION}  over {LONGEST_FUNCTION}  files over {LONG_FILE}"
        );
        for (room, files) in &rooms {
            print_row(room, files);
        }
        let all: Vec<&File> = files.iter().collect();
        print_row("all", &all);
        print_spread(&all);
    }
    Ok(())
}

/// Reads all sources below a folder; paths are relative to the first one.
fn read_folder(folder: &Path, files: &mut Vec<File>) -> std::io::Result<()> {
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next)? {
            let path = entry?.path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if is_test {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let short = path.strip_prefix(folder).unwrap_or(&path).to_owned();
                files.push(measure(short, &text));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(())
}

fn measure(path: PathBuf, text: &str) -> File {
    let tests = text.find("\n#[cfg(test)]\nmod tests {");
    let lines: Vec<&str> = text[..tests.unwrap_or(text.len())].lines().collect();
    let is_blank = |line: &&&str| line.trim().is_empty();
    let is_comment = |line: &&&str| line.trim_start().starts_with("//");
    let n_comments = lines.iter().filter(is_comment).count();
    let n_blank = lines.iter().filter(is_blank).count();
    let starts = lines.iter().enumerate();
    let functions = starts.filter_map(|(at, line)| function(line, &lines[at..]));
    File {
        functions: functions.collect(),
        path,
        n_lines: lines.len(),
        n_code: lines.len() - n_comments - n_blank,
        n_comments,
    }
}

/// The function that begins with this line, if one does and has a body.
fn function(line: &str, rest: &[&str]) -> Option<Function> {
    const BEFORE: &[&str] = &["pub", "async", "const", "unsafe", "extern", "\"C\""];
    let (before, after) = line.split_once("fn ")?;
    let is_before = |word: &str| BEFORE.contains(&word.split('(').next().unwrap_or(word));
    // `pub(in crate::runtime)` is one word, but for its blank.
    let before = before.replace("(in ", "(");
    if !before.split_whitespace().all(is_before) {
        return None;
    }
    let name = after.split(['(', '<']).next()?.to_owned();
    let column = line.len() - line.trim_start().len();
    let is_end = |line: &&str| line.len() > column && &line[column..] == "}" && line.trim() == "}";
    let is_short = line.ends_with('}');
    let ends_without_body = rest.iter().position(|line| line.ends_with(';'))?;
    let begins_body = rest.iter().position(|line| line.ends_with('{'));
    if !is_short && begins_body.is_none_or(|begin| ends_without_body < begin) {
        return None;
    }
    let n_lines = match is_short {
        true => 1,
        false => rest.iter().position(is_end)? + 1,
    };
    Some(Function { name, n_lines })
}

fn print_row(room: &str, files: &[&File]) {
    let sum = |count: fn(&File) -> usize| files.iter().map(|file| count(file)).sum::<usize>();
    let over = |limit: usize| {
        let functions = files.iter().flat_map(|file| &file.functions);
        functions
            .filter(|function| function.n_lines > limit)
            .count()
    };
    let (n_code, n_comments) = (sum(|file| file.n_code), sum(|file| file.n_comments));
    let share = 100 * n_comments / (n_code + n_comments).max(1);
    let n_long = files.iter().filter(|file| file.n_lines > LONG_FILE).count();
    println!(
        "{room:<16} {:>6} {n_code:>6} {share:>7} % {:>10} {:>8} {:>9} {n_long:>15}",
        files.len(),
        sum(|file| file.functions.len()),
        over(LONG_FUNCTION),
        over(LONGEST_FUNCTION),
    );
}

/// The median, the ninth decile and the largest of files and functions.
fn print_spread(files: &[&File]) {
    let lengths = files.iter();
    let lengths = lengths.map(|file| (file.n_lines, file.path.display().to_string()));
    print_lengths("lines of a file", lengths.collect());
    let functions = files.iter().flat_map(|file| {
        let path = file.path.display();
        let functions = file.functions.iter();
        functions.map(move |function| (function.n_lines, format!("{path}:{}", function.name)))
    });
    print_lengths("lines of a function", functions.collect());
}

fn print_lengths(what: &str, mut lengths: Vec<(usize, String)>) {
    lengths.sort();
    let at = |share: usize| {
        let found = lengths.get(lengths.len() * share / 10);
        found.map_or(0, |(n_lines, _)| *n_lines)
    };
    println!("  {what}: median {}, ninth decile {}", at(5), at(9));
    for (n_lines, name) in lengths.iter().rev().take(5) {
        println!("    {n_lines:>4} {name}");
    }
    println!();
}
