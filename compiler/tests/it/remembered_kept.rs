//! Calls of plugins that use what some function has made once and keeps, what decorators have made of functions, or chance with a seed: they
//! are known from an earlier compile like others, and the files of which something is kept count for each of them. Source:
//! docs/reference/compile-contract.md § 1.

use crate::declarations::{Case, case};

const HEAD: &str =
    "import functools, json, os, random\nfrom inmanta.plugins import Context, plugin\n";
const KEPT: &str = "_sites = None\n\ndef sites():\n    global _sites\n    if _sites is None:\n        \
                    with open(os.path.join(os.path.dirname(__file__), \"..\", \"files\", \"sites.json\")) as file:\n            \
                    _sites = json.load(file)\n    return _sites\n\n\
                    @plugin\ndef city(name: \"string\") -> \"string\":\n    return sites().get(name, \"nowhere\")\n\n\
                    @plugin\ndef number(name: \"string\") -> \"int\":\n    return len(sites()) + len(name)\n";

/// What a compile prints that starts Python so often, the same as one that knows nothing.
#[track_caller]
fn printed(case: &Case, n_starts: usize) -> String {
    case.check(n_starts);
    case.run(true).0.printed
}

/// Given: plugins that use what a function has read from a file and keeps, called in one order or another, some of them new. Expected: they
/// are known until the file changes, whoever reads it first.
#[test]
fn what_is_read_once_counts_for_all_calls() {
    let model = |calls: &str| {
        let calls = calls
            .split(' ')
            .map(|call| format!("std::print(m::{call})\n"));
        format!("import m\n{}", calls.collect::<String>())
    };
    let case = case(
        &model("city(\"a\") number(\"b\") city(\"b\")"),
        &format!("{HEAD}{KEPT}"),
    );
    let write = |text: &str| case.write("libs/m/files/sites.json", text);
    write("{\"a\": \"Ghent\", \"b\": \"Bruges\"}");
    for n_starts in [1, 0, 0] {
        assert_eq!(printed(&case, n_starts), "Ghent\n3\nBruges\n");
    }
    // Another call is the first one that Python makes.
    case.write(
        "main.cf",
        &model("city(\"c\") city(\"b\") number(\"b\") city(\"a\")"),
    );
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "nowhere\nBruges\n3\nGhent\n");
    }
    write("{\"a\": \"Namur\", \"b\": \"Bruges\", \"c\": \"Ypres\"}");
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "Ypres\nBruges\n4\nNamur\n");
    }
}

/// Given: the same, but a plugin that does more than compute uses it first. Expected: nobody has noted what was read then, so all
/// that use it are asked each time, and a change of the file is seen.
#[test]
fn what_others_have_read_before_is_not_known() {
    let code = "COUNTS = []\n\n@plugin\ndef counted(name: \"string\") -> \"string\":\n    COUNTS.append(name)\n    \
                return sites().get(name, \"\") + str(len(COUNTS))\n";
    let model = "import m\nstd::print(m::counted(\"a\"))\nstd::print(m::city(\"a\"))\n";
    let case = case(model, &format!("{HEAD}{KEPT}{code}"));
    for city in ["Ghent", "Namur", "Ypres"] {
        case.write("libs/m/files/sites.json", &format!("{{\"a\": \"{city}\"}}"));
        for _ in 0..2 {
            assert_eq!(printed(&case, 1), format!("{city}1\n{city}\n"));
        }
    }
}

/// Given: plugins with decorators of the project, with chance that has a seed, with a context that they leave alone, with results that Python
/// keeps. Expected: all are known.
#[test]
fn more_of_what_authors_write_is_known() {
    let code = "def retry(times):\n    def decorate(function):\n        @functools.wraps(function)\n        \
                def wrapper(text):\n            for _ in range(times):\n                try:\n                    \
                return function(text)\n                except KeyError:\n                    continue\n            \
                return \"none\"\n        return wrapper\n    return decorate\n\n\
                RENDERERS = {}\n\ndef renders(vendor):\n    def keep(function):\n        RENDERERS[vendor] = function\n        \
                return function\n    return keep\n\n\
                @renders(\"a\")\ndef shout(text):\n    return text.upper()\n\n\
                @functools.lru_cache(maxsize=None)\ndef words(text: str) -> dict:\n    return {word: len(word) for word in text.split()}\n\n\
                @plugin\n@retry(3)\ndef tried(text: \"string\") -> \"string\":\n    return {\"a\": \"A\"}[text]\n\n\
                @plugin\ndef rendered(vendor: \"string\", text: \"string\") -> \"string\":\n    return RENDERERS[vendor](text)\n\n\
                @plugin\ndef key(name: \"string\") -> \"int\":\n    return random.Random(name).randint(1, 1000)\n\n\
                @plugin\ndef left(context: Context, text: \"string\") -> \"string\":\n    return text + \"!\"\n\n\
                @plugin\ndef counted(text: \"string\") -> \"dict\":\n    return dict(words(text))\n";
    let model = "import m\nstd::print(m::tried(\"a\"))\nstd::print(m::tried(\"b\"))\nstd::print(m::rendered(\"a\", \"x\"))\n\
                 std::print(m::key(\"a\"))\nstd::print(m::left(\"a\"))\nstd::print(m::counted(\"a bc\"))\n";
    let case = case(model, &format!("{HEAD}{code}"));
    let first = printed(&case, 1);
    assert!(first.starts_with("A\nnone\nX\n"), "{first}");
    assert!(
        first.contains("\na!\n") && first.contains("{'a': 1, 'bc': 2}"),
        "{first}"
    );
    assert_eq!(printed(&case, 0), first);
}

/// Given: a plugin that is known to wait for a relation, among calls of one that does more than compute. Expected: the latter
/// are made in their order and once each, whether the former is known, waits, or is asked.
#[test]
fn calls_that_wait_are_left_behind() {
    let code = "COUNTS = []\n\n@plugin\ndef counted(name: \"string\") -> \"string\":\n    COUNTS.append(name)\n    \
                return name + str(len(COUNTS))\n\n\
                @plugin\ndef ends(site: \"any\") -> \"string\":\n    try:\n        return site.name + site.up.name\n    \
                except OptionalValueException:\n        return site.name\n";
    let sites = |n: usize| {
        let sites = (0..n).map(|at| {
            let up = match at % 3 {
                0 => String::new(),
                _ => format!(", up=s{}", at - 1),
            };
            format!(
                "s{at} = Site(name=\"s{at}\"{up})\n\
                 std::print(m::counted(\"a{at}\") + m::ends(s{at}) + m::counted(\"b{at}\"))\n"
            )
        });
        format!(
            "import m\nentity Site:\n    string name\nend\nSite.up [0:1] -- Site.subs [0:]\n\
             implement Site using std::none\n{}",
            sites.collect::<String>()
        )
    };
    let head = HEAD.replace(
        "import functools",
        "from inmanta.ast import OptionalValueException\nimport functools",
    );
    let case = case(&sites(7), &format!("{head}{code}"));
    let first = printed(&case, 1);
    assert_eq!(first.lines().count(), 7, "{first}");
    assert_eq!(printed(&case, 1), first);
    // Some are new, so Python is asked for them behind others.
    case.write("main.cf", &sites(12));
    let more = printed(&case, 1);
    assert_eq!(printed(&case, 1), more);
    assert_eq!(more.lines().count(), 12);
}
