use std::path::Path;

use super::{format, significant};
use crate::intern::Interner;
use crate::span::FileId;
use crate::syntax::token::Kind;
use crate::syntax::{parse, tokens};

#[track_caller]
fn check(text: &str, expected: &str) {
    let formatted = format("main.cf", text).expect("it is well formed");
    assert_eq!(
        formatted,
        expected.trim_start_matches('\n'),
        "\n{formatted}"
    );
    assert_eq!(format("main.cf", &formatted).as_ref(), Ok(&formatted));
}

#[test]
fn blocks_and_blanks() {
    check(
        "\n\nimport   a::b  as c\nentity  Host extends a :: Base,Other :\n\"\"\" Text. \"\"\"\n\n  string  name=\"x\"\n\n\n  int ?  port = null\n  string [ ] tags=[ 1,2, ]   # why\n  dict? d = {\"a\":1 , \"b\" : [ ] }\nend\nHost.disks[ 0: ]--Disk . host [1]\nHost.x [ 0 : 1 ]   \"annotated\" ,3 Disk\nindex Host( name,port )\ntypedef t as string matching /a+ /\ntypedef u as int matching  self>0 and( self< -5 or not(self in[1]))\nimplement Host using  x,y when a==b\nimplementation x  for Host:self.a=1 # one\n# two\nif a: b.c+=2 elif not a:\n\n\nc=d[ \"k\" ] [ 2 ] else: x=a?b:c end for i in l:\nend\n\n\nend\nx=a  -b*2**-3%4 y=-5\n",
        "
import a::b as c
entity Host extends a::Base, Other:
    \"\"\" Text. \"\"\"

    string name = \"x\"

    int? port = null
    string[] tags = [1, 2]  # why
    dict? d = {\"a\": 1, \"b\": []}
end
Host.disks [0:] -- Disk.host [1]
Host.x [0:1] \"annotated\", 3 Disk
index Host(name, port)
typedef t as string matching /a+ /
typedef u as int matching self > 0 and (self < -5 or not (self in [1]))
implement Host using x, y when a == b
implementation x for Host:
    self.a = 1  # one
    # two
    if a:
        b.c += 2
    elif not a:
        c = d[\"k\"][2]
    else:
        x = a ? b : c
    end
    for i in l:
    end
end
x = a - b * 2 ** -3 % 4
y = -5
",
    );
}

#[test]
fn lists_of_several_lines() {
    check(
        "x = A(a=1,\n  b = [1,2,\n3,4], # four\n  **d)\ny = foo([\n1,\n2], {\"a\": x ?\n1 : 2,\n# last\n})\nz = [a for a in b\n  if a]\nv = foo(\n)\nw = A [\n a=1]\nu = f(a\n  # why\n , b)\n",
        "
x = A(
    a=1,
    b=[
        1, 2,
        3, 4,
    ],  # four
    **d,
)
y = foo([
    1,
    2,
], {
    \"a\": x ?
        1 : 2,
    # last
})
z = [
    a for a in b
        if a
]
v = foo()
w = A[
    a=1
]
u = f(
    a
        # why
        , b,
)
",
    );
}

#[test]
fn what_continues_a_line_is_indented() {
    check(
        "x = a and\n b or c(\n1)\nimplement A\n using b,\n c\nA.b [0:] --\n B.c [1]\n\"\"\" doc\n   kept \"\"\"\n# end\n",
        "
x = a and
    b or c(
        1,
    )
implement A
    using b,
    c
A.b [0:] --
    B.c [1]
\"\"\" doc
   kept \"\"\"
# end
",
    );
}

#[test]
fn a_file_with_mistakes_has_no_layout() {
    let diagnostics = format("a.cf", "x = = 1\n").expect_err("it is a mistake");
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].kind, "ParserException");
    let location = diagnostics[0].location.as_ref().expect("it has a place");
    assert_eq!((location.file.as_str(), location.line), ("a.cf", 1));
}

/// The tree without places.
fn tree(text: &str, names: &mut Interner) -> String {
    let ast = parse(FileId(0), &format!("{text}\n"), names).ast;
    let mut tree = String::new();
    let debug = format!("{:?} {:?}", ast.exprs, ast.items);
    let mut rest = debug.as_str();
    while let Some((before, after)) = rest.split_once("Span {") {
        tree.push_str(before);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
    }
    tree.push_str(rest);
    tree
}

/// A small generator of numbers, the same ones every time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

/// The same tokens with other blanks.
fn shaken(text: &str, numbers: &mut Numbers) -> String {
    let mut shaken = String::new();
    for token in tokens(text) {
        let slice = &text[token.start as usize..token.end as usize];
        match token.kind {
            Kind::Blank => {
                let had_line = shaken.ends_with('\n');
                shaken.push_str([" ", "\n", "\n\n\n", "  \t", "\n    "][numbers.next(5)]);
                if !had_line && shaken.lines().last().is_some_and(|line| line.contains('#')) {
                    shaken.push('\n');
                }
            }
            _ => {
                shaken.push_str(slice);
                if token.kind == Kind::Comment {
                    shaken.push('\n');
                } else if numbers.next(12) == 0 {
                    shaken.push(if numbers.next(2) == 0 { ' ' } else { '\n' });
                }
            }
        }
    }
    shaken
}

fn models(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            models(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "cf") {
            found.push(std::fs::read_to_string(&path).expect("a model is readable"));
        }
    }
}

#[test]
fn the_layout_is_stable_and_changes_nothing_else() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut texts = Vec::new();
    models(&root.join("../fixtures"), &mut texts);
    models(&root.join("src/builtin"), &mut texts);
    assert!(texts.len() > 200);
    let mut numbers = Numbers(11);
    let mut n_formatted = 0;
    let random: Vec<String> = texts
        .iter()
        .flat_map(|text| [shaken(text, &mut numbers), shaken(text, &mut numbers)])
        .collect();
    for text in texts.iter().chain(&random) {
        let Ok(formatted) = format("main.cf", text) else {
            let mut names = Interner::default();
            let errors = parse(FileId(0), &format!("{text}\n"), &mut names).errors;
            assert!(
                !errors.is_empty(),
                "not formatted, but well formed:\n{text}"
            );
            continue;
        };
        n_formatted += 1;
        assert_eq!(significant(&formatted), significant(text), "\n{text}");
        let mut names = Interner::default();
        assert_eq!(
            tree(text, &mut names),
            tree(&formatted, &mut names),
            "\n{text}"
        );
        let again = format("main.cf", &formatted);
        assert_eq!(again.as_ref(), Ok(&formatted), "\n{text}\n\n{formatted}");
    }
    assert!(n_formatted > 500, "{n_formatted}");
}
