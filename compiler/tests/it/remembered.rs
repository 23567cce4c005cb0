//! Calls of plugins that are not made again: what a plugin that only computes gave for the same is known from an earlier
//! compile. Source: docs/reference/compile-contract.md § 1.

use crate::declarations::{Case, case};

const HEAD: &str = "from inmanta.plugins import plugin\n";
/// Sites with ends; what their texts are made of is read one after the other.
const SITES: &str = "import m\nentity Site:\n    string name\n    string text\nend\nentity End:\n    string name\n    int port\nend\n\
                     Site.ends [0:] -- End.site [1]\nimplement Site using described\nimplement End using std::none\n\
                     implementation described for Site:\n    self.text = m::described(self)\n    std::print(self.text)\nend\n";
const DESCRIBED: &str = "@plugin\ndef described(site: \"any\") -> \"string\":\n    \
                         ends = [f\"{end.name}:{end.port}\" for end in site.ends if end.port > 9]\n    \
                         return site.name + \" \" + \", \".join(sorted(ends))\n";

fn sites(text: &str) -> String {
    format!("{SITES}{text}")
}

/// What a compile prints that starts Python so often, the same as one that knows nothing.
#[track_caller]
fn printed(case: &Case, n_starts: usize) -> String {
    case.check(n_starts);
    case.run(true).0.printed
}

#[test]
fn a_call_with_the_same_arguments_is_known() {
    let model = "import m\nstd::print(m::shout(\"a\", times=2))\nstd::print(m::shout(\"b\"))\n";
    let code = "@plugin\ndef shout(text: \"string\", times: \"int\" = 1) -> \"string\":\n    return text.upper() * times\n";
    let case = case(model, &format!("{HEAD}{code}"));
    assert_eq!(printed(&case, 1), "AA\nB\n");
    assert_eq!(printed(&case, 0), "AA\nB\n");
    case.write("main.cf", &model.replace("times=2", "times=3"));
    assert_eq!(printed(&case, 1), "AAA\nB\n");
    assert_eq!(printed(&case, 0), "AAA\nB\n");
}

#[test]
fn what_a_plugin_reads_of_instances_counts_and_nothing_else() {
    let text = "a = Site(name=\"a\", ends=[End(name=\"x\", port=10), End(name=\"y\", port=2)])\n";
    let case = case(&sites(text), &format!("{HEAD}{DESCRIBED}"));
    assert_eq!(printed(&case, 1), "a x:10\n");
    assert_eq!(printed(&case, 0), "a x:10\n");
    // Other instances come first, and others follow: their numbers are others, and so is the order.
    let more = "End(name=\"z\", port=10, site=b)\nb = Site(name=\"a\")\n";
    case.write("main.cf", &sites(&format!("c = Site(name=\"c\")\n{text}")));
    assert_eq!(printed(&case, 1), "c \na x:10\n");
    // The second end's name was never read.
    case.write(
        "main.cf",
        &sites(&format!("c = Site(name=\"c\")\n{}", text.replace('y', "w"))),
    );
    assert_eq!(printed(&case, 0), "c \na x:10\n");
    // Its port was.
    case.write(
        "main.cf",
        &sites(&format!("{}{more}", text.replace('2', "12"))),
    );
    assert_eq!(printed(&case, 1), "a x:10, y:12\na z:10\n");
    assert_eq!(printed(&case, 0), "a x:10, y:12\na z:10\n");
}

#[test]
fn a_call_that_waits_for_a_value_waits_without_python_too() {
    // The port is known after the text of another site was made.
    let text = "a = Site(name=\"a\", ends=[x])\nx = End(name=\"x\", port=n)\nb = Site(name=\"b\")\n\
                n = b.text == \"b \" ? 11 : 12\n";
    let case = case(&sites(text), &format!("{HEAD}{DESCRIBED}"));
    let first = printed(&case, 1);
    assert_eq!(first, "b \na x:11\n");
    assert_eq!(printed(&case, 0), first);
}

#[test]
fn a_plugin_that_does_more_than_compute_is_called_each_time() {
    let model = "import m\nstd::print(m::counted(1))\nstd::print(m::counted(1))\n";
    let code = "CALLS = []\n\n@plugin\ndef counted(number: \"int\") -> \"int\":\n    CALLS.append(number)\n    return len(CALLS)\n";
    let case = case(model, &format!("{HEAD}{code}"));
    for _ in 0..3 {
        assert_eq!(printed(&case, 1), "1\n2\n");
    }
}

/// Given: a plugin that does more than compute, whose first call waits for a relation. Expected: what it is, is kept: finding that out
/// takes longer than many calls.
#[test]
fn what_a_plugin_is_is_kept_though_its_call_waits() {
    let text = "a = Site(name=\"a\", ends=[End(name=\"x\", port=10)])\nEnd(name=\"y\", port=n, site=a)\n\
                b = Site(name=\"b\")\nn = b.name == \"b\" ? 11 : 12\n";
    let code = DESCRIBED.replace("    ends =", "    KEPT.append(site.name)\n    ends =");
    let case = case(&sites(text), &format!("{HEAD}KEPT = []\n{code}"));
    printed(&case, 1);
    let is_kept = std::cell::Cell::new(false);
    let verdict = b"m::described\xc2";
    case.damage(|kept| {
        let is_here = kept.windows(verdict.len()).any(|part| part == verdict);
        is_kept.set(is_kept.get() || is_here);
    });
    assert!(is_kept.get());
}

#[test]
fn what_is_not_a_value_of_the_model_is_made_each_time() {
    let model = "import m\nstd::print(m::shown(std::Host(name=\"a\", os=std::linux)))\nstd::print(m::failed(\"x\"))\n";
    let code = "@plugin\ndef shown(host: \"std::Host\") -> \"string\":\n    return f\"{host}\"\n\n\
                @plugin\ndef failed(text: \"string\") -> \"string\":\n    try:\n        return str(int(text))\n    \
                except ValueError as error:\n        return str(error)\n";
    let case = case(model, &format!("{HEAD}{code}"));
    for _ in 0..2 {
        // The text of an instance says more than its attributes.
        assert!(printed(&case, 1).contains("invalid literal"));
    }
}

/// Given: plugins that make texts of whole lists and dicts. Expected: they are known, but for one in which there is an instance.
#[test]
fn texts_of_lists_and_dicts_are_known() {
    let head = "import m\nentity Site:\n    string name\n    string[] tags = [\"x\"]\n    dict place = {\"at\": [1, null, {\"b\": 2.5}]}\nend\n\
                Site.others [0:] -- Site.of [0:]\nimplement Site using std::none\ns = Site(name=\"s\")\n";
    let model = format!("{head}std::print(m::shown(s, {{\"k\": [true, \"l\"]}}))\n");
    let code = "import json\n@plugin\ndef shown(site: \"any\", options: \"dict\") -> \"string\":\n    \
                return f\"{site.tags} {site.place!r} {options}\" + json.dumps(sorted(options), default=str)\n";
    let case = case(&model, &format!("{HEAD}{code}"));
    let first = printed(&case, 1);
    assert!(first.contains("{'at': [1, null, {'b': 2.5}]}"), "{first}");
    assert_eq!(printed(&case, 0), first);
    case.write("main.cf", &model.replace("2.5", "3.5"));
    assert_ne!(printed(&case, 1), first);
    case.write(
        "libs/m/plugins/__init__.py",
        &format!("{HEAD}{}", code.replace("{site.tags}", "{site.others}")),
    );
    for of in ["", "std::print(s.others)\n"] {
        case.write(
            "main.cf",
            &format!("{model}{of}").replace("name=\"s\")", "name=\"s\", others=Site(name=\"t\"))"),
        );
        for _ in 0..2 {
            case.check(1);
        }
    }
}

/// Given: a plugin that reads attributes whose names it is given, on the way of a path, too. Expected: what it gives is known; of
/// names that are no attributes of a model it is asked each time.
#[test]
fn attributes_that_are_read_by_their_names_are_known() {
    let model = "import m\nentity Owner:\n    string name\nend\nentity Site:\n    string name\n    int size = 3\nend\nSite.owner [1] -- Owner\n\
                 implement Site using std::none\nimplement Owner using std::none\n\
                 s = Site(name=\"s\", owner=Owner(name=\"o\"))\nstd::print(m::row(s, [\"name\", \"size\"], \"owner.name\"))\n";
    let code = "@plugin\ndef row(site: \"any\", columns: \"string[]\", path: \"string\") -> \"string\":\n    \
                value = site\n    for part in path.split(\".\"):\n        value = getattr(value, part)\n    \
                return \",\".join(str(getattr(site, column)) for column in columns) + str(value)\n";
    let case = case(model, &format!("{HEAD}{code}"));
    assert_eq!(printed(&case, 1), "s,3o\n");
    assert_eq!(printed(&case, 0), "s,3o\n");
    case.write("main.cf", &model.replace("size = 3", "size = 4"));
    assert_eq!(printed(&case, 1), "s,4o\n");
    case.write("main.cf", &model.replace("\"size\"]", "\"name\"]"));
    assert_eq!(printed(&case, 1), "s,so\n");
    assert_eq!(printed(&case, 0), "s,so\n");
    for hidden in ["name.__class__", "__class__"] {
        case.write("main.cf", &model.replace("owner.name", hidden));
        case.check(1);
        case.check(1);
    }
    case.write("main.cf", &model.replace("\"size\"]", "\"__doc__\"]"));
    case.check(1);
    case.check(1);
}

/// Given: plugins that ask whether an instance has an attribute, which its entity has not. Expected: what they gave is known, until the
/// entity gets the attribute.
#[test]
fn attributes_that_an_entity_has_not_are_known_to_be_absent() {
    let model = "import m\nentity Port:\n    string name\nend\nentity Trunk extends Port:\n    string tag = \"t\"\nend\n\
                 implement Port using std::none\nimplement Trunk using std::none\n\
                 p = Port(name=\"p\")\nt = Trunk(name=\"q\")\nstd::print([m::label(p), m::label(t), m::either(p), m::caught(p)])\n";
    let code = format!(
        "{HEAD}@plugin\ndef label(x: \"any\") -> \"string\":\n    return x.tag if hasattr(x, \"tag\") else x.name\n\n\
         @plugin\ndef either(x: \"any\") -> \"string\":\n    return getattr(x, \"tag\", x.name.upper())\n\n\
         @plugin\ndef caught(x: \"any\") -> \"string\":\n    try:\n        return x.tag\n    except AttributeError as error:\n        \
         return str(error)\n"
    );
    let case = case(model, &code);
    let absent =
        "@['p', 't', 'P', 'could not find attribute with name: tag in type __config__::Port']\n";
    assert_eq!(printed(&case, 1), absent);
    assert_eq!(printed(&case, 0), absent);
    let more = model.replace(
        "string name\nend",
        "string name\n    string tag = \"u\"\nend",
    );
    case.write("main.cf", &more);
    assert_eq!(printed(&case, 1), "@['u', 't', 'u', 'u']\n");
    assert_eq!(printed(&case, 0), "@['u', 't', 'u', 'u']\n");
}

#[test]
fn exceptions_come_each_time() {
    let model = "import m\nstd::print(m::refused(\"x\"))\n";
    let code = "from inmanta.plugins import PluginException\n\n@plugin\ndef refused(text: \"string\") -> \"string\":\n    \
                if text == \"x\":\n        raise PluginException(f\"not {text}\")\n    return text\n";
    let case = case(model, &format!("{HEAD}{code}"));
    for _ in 0..3 {
        let (seen, compiled) = case.run(true);
        assert!(
            compiled.diagnostics[0].message.contains("not x"),
            "{:#?}",
            compiled.diagnostics
        );
        assert_eq!(seen.n_starts, 1);
    }
}

#[test]
fn other_code_forgets_all_calls() {
    let model = "import m\nstd::print(m::shout(\"a\"))\n";
    let code = format!(
        "{HEAD}@plugin\ndef shout(text: \"string\") -> \"string\":\n    return text.upper()\n"
    );
    let case = case(model, &code);
    assert_eq!(printed(&case, 1), "A\n");
    assert_eq!(printed(&case, 0), "A\n");
    case.write(
        "libs/m/plugins/__init__.py",
        &code.replace("upper()", "upper() + \"!\""),
    );
    assert_eq!(printed(&case, 1), "A!\n");
    assert_eq!(printed(&case, 0), "A!\n");
    // What another file does to a name of this one.
    let reset = "import inmanta_plugins.m as m\nm.shout.later = 1\n";
    case.write("libs/m/plugins/other.py", reset);
    assert_eq!(printed(&case, 1), "A!\n");
}

#[test]
fn a_memo_that_is_damaged_is_made_anew() {
    let case = case(
        "import m\nstd::print(m::shout(\"a\"))\n",
        &format!(
            "{HEAD}@plugin\ndef shout(text: \"string\") -> \"string\":\n    return text.upper()\n"
        ),
    );
    assert_eq!(printed(&case, 1), "A\n");
    case.damage(|kept| kept.truncate(kept.len() / 2));
    assert_eq!(printed(&case, 1), "A\n");
    assert_eq!(printed(&case, 0), "A\n");
}

const PORTS: &str = "import m\nentity Site:\n    string name\n    string? owner = null\nend\n\
                     entity Port extends std::Resource:\n    string device\n    int number\n    string unread\nend\n\
                     Port.site [1] -- Site\nimplement Site using std::none\nimplement Port using std::none\n";
const PORT: &str = "from inmanta.resources import Resource, resource\n\n\n@resource(\"__config__::Port\", id_attribute=\"label\", agent=\"device\")\n\
                    class Port(Resource):\n    fields = (\"label\", \"place\", \"speed\", \"kind\")\n    map = {\"kind\": lambda _, port: port.device[:1]}\n\n    \
                    @staticmethod\n    def get_label(exporter, port):\n        return f\"{port.device}/{port.number}\"\n\n    \
                    @staticmethod\n    def get_place(_, port):\n        return {\"site\": port.site.name, \"odd\": port.number % 2 == 1}\n\n    \
                    @classmethod\n    def get_speed(cls, _, port):\n        return [port.number * 1.5]\n";

fn ports(text: &str) -> String {
    format!("{PORTS}s = Site(name=\"here\")\n{text}")
}

/// Given: fields that getters, class methods and functions of `map` compute, and an id of them. Expected: the second compile
/// knows them, and one with another value of what they read asks for that resource.
#[test]
fn fields_that_getters_compute_are_known() {
    let one = "Port(device=\"a\", number=1, unread=\"x\", site=s)\n";
    let other = "Port(device=\"b\", number=2, unread=\"x\", site=s)\n";
    let case = case(&ports(&format!("{one}{other}")), PORT);
    case.check(1);
    case.check(0);
    let (seen, _) = case.run(true);
    for part in [
        "Port[a,label=a/1]",
        "\"site\":\"here\"",
        "\"odd\":true",
        "[3.0]",
        "\"kind\":\"b\"",
    ] {
        let export = seen.export.replace(": ", ":");
        assert!(export.contains(part), "{part} in {export}");
    }
    // Others come first, and what no getter reads is another.
    let text = format!("Site(name=\"there\")\n{other}{}", one.replace('x', "y"));
    case.write("main.cf", &ports(&text));
    case.check(0);
    case.write(
        "main.cf",
        &ports(&format!("{one}{}", other.replace('2', "3"))),
    );
    case.check(1);
    case.check(0);
}

/// Given: getters that share a function of their class, read attributes by a list of names, or stand in one line of `map`.
/// Expected: they are known.
#[test]
fn getters_with_functions_of_their_class_are_known() {
    let code = PORT
        .replace(
            "return {\"site\": port.site.name, \"odd\": port.number % 2 == 1}",
            "return {name: str(getattr(port, name)) for name in (\"device\", \"number\")} | Port.odd(port)\n\n    \
             @staticmethod\n    def odd(port):\n        return {\"odd\": port.number % 2 == 1}",
        )
        .replace("return [port.number * 1.5]", "return [cls.odd(port)]")
        .replace("map = {", "map = {\"unused\": lambda _, port: port.site, ");
    let case = case(
        &ports("Port(device=\"a\", number=1, unread=\"x\", site=s)\n"),
        &code,
    );
    case.check(1);
    case.check(0);
    let (seen, _) = case.run(true);
    let export = seen.export.replace(": ", ":");
    for part in [
        "\"device\":\"a\"",
        "\"number\":\"1\"",
        "[{\"odd\":true}]",
        "\"kind\":\"a\"",
    ] {
        assert!(export.contains(part), "{part} in {export}");
    }
}

/// Given: getters that look at the exporter or at what their class keeps, or give an object of Python's.
/// Expected: they run in each compile.
#[test]
fn getters_that_do_more_than_compute_run_each_time() {
    let port = "Port(device=\"a\", number=1, unread=\"x\", site=s)\n";
    for body in [
        "return exporter.upload_file(\"x\")",
        "Port.seen.append(port.number)\n        return len(Port.seen)",
        "return port.site.owner or \"nobody\"",
    ] {
        let code = PORT
            .replace(
                "return {\"site\": port.site.name, \"odd\": port.number % 2 == 1}",
                body,
            )
            .replace("def get_place(_,", "def get_place(exporter,")
            .replace(
                "class Port(Resource):\n",
                "class Port(Resource):\n    seen = []\n",
            );
        let case = case(&ports(port), &code);
        case.check(1);
        let computes = body.contains("owner");
        case.check(usize::from(!computes));
    }
}

/// Given: a getter that leaves out resources, by what it reads. Expected: the second compile knows which.
#[test]
fn which_resources_a_getter_leaves_out_is_known() {
    let code = PORT
        .replace(
            "import Resource,",
            "import IgnoreResourceException, Resource,",
        )
        .replace(
            "        return {\"site\": port.site.name,",
            "        if port.unread == \"out\":\n            raise IgnoreResourceException(\"not today\")\n        \
             return {\"site\": port.site.name,",
        );
    let port = |number: u32, unread: &str| {
        format!("Port(device=\"a\", number={number}, unread=\"{unread}\", site=s)\n")
    };
    let text = [port(1, "x"), port(2, "out"), port(3, "x"), port(4, "out")].concat();
    let case = case(&ports(&text), &code);
    case.check(1);
    case.check(0);
    let (seen, _) = case.run(true);
    let exported = |number: u32| seen.export.contains(&format!("Port[a,label=a/{number}]"));
    assert_eq!([1, 2, 3, 4].map(exported), [true, false, true, false]);
    case.write("main.cf", &ports(&text.replacen("out", "y", 1)));
    case.check(1);
    case.check(0);
}

/// Given: plugins that give instances which they found. Expected: the next compile knows which, though they have other numbers.
#[test]
fn an_instance_that_a_plugin_finds_is_known() {
    let model = |first: &str| {
        format!(
            "import m\nentity Port:\n    string name\nend\nentity Site:\n    string name\nend\nSite.ports [0:] -- Port\n\
             implement Port using std::none\nimplement Site using std::none\n{first}\n\
             s = Site(name=\"s\", ports=[Port(name=\"a\"), Port(name=\"b\"), Port(name=\"c\")])\n\
             p = m::found(s, \"b\")\nstd::print(p.name)\n\
             std::print([q.name for q in m::others(s, p)])\n"
        )
    };
    let code = format!(
        "{HEAD}@plugin\ndef found(site: \"any\", name: \"string\") -> \"any\":\n    \
         return [port for port in site.ports if port.name == name][0]\n\n\
         @plugin\ndef others(site: \"any\", port: \"any\") -> \"list\":\n    \
         return [other for other in site.ports if other != port]\n"
    );
    let case = case(&model(""), &code);
    let expected = "b\n@[\"a\",\"c\"]\n";
    let plain = |text: String| text.replace(", ", ",").replace('\'', "\"");
    assert_eq!(plain(printed(&case, 1)), expected);
    assert_eq!(plain(printed(&case, 0)), expected);
    case.write("main.cf", &model("Port(name=\"first\")\nPort(name=\"b\")"));
    assert_eq!(plain(printed(&case, 0)), expected);
}

/// Given: numbers whose bytes look like the beginning of half a character (0xed). Expected: they are known like others.
#[test]
fn numbers_and_letters_of_all_kinds_are_known() {
    let model = "import m\nfor n in [236, 237, 493, 60672]:\n    std::print(m::shown(n))\nend\nstd::print(m::letter(\"\u{d000}\"))\n";
    let code = format!(
        "{HEAD}@plugin\ndef shown(number: \"int\") -> \"dict\":\n    return {{\"n\": number}}\n\n\
         @plugin\ndef letter(text: \"string\") -> \"list\":\n    return [text]\n"
    );
    let case = case(model, &code);
    let first = printed(&case, 1);
    assert_eq!(printed(&case, 0), first);
}

const RANGE: &str = "entity Range extends std::Dataclass:\n    string name\n    int first\n    string[] tags\nend\n\
                     implement Range using std::none\n";

/// What makes a dataclass, and what reads it.
fn range(class: &str, methods: &str, more: &str) -> String {
    format!(
        "import dataclasses, enum, os\n{HEAD}class Kind(enum.Enum):\n    A = \"a\"\n\n{class}class Range:\n    \
         name: str\n    first: int\n    tags: list[str] = dataclasses.field(default_factory=list)\n{methods}\n\
         @plugin\ndef made(name: str, number: int) -> Range:\n    \
         return Range(name=Kind.A.value + name, first=number * 10, tags=[name])\n\n\
         @plugin\ndef all_made(n: int) -> list[Range]:\n    return [Range(f\"r{{i}}\", i) for i in range(n)]\n\n\
         @plugin\ndef shown(given: Range) -> str:\n    return f\"{{given.name}} {{given.first}} {{given.tags}}\"\n\n\
         @plugin\ndef moved(given: Range) -> Range:\n    return dataclasses.replace(given, first=given.first + 1)\n\n\
         @plugin\ndef more(given: Range) -> str:\n    {more}\n"
    )
}

const FROZEN: &str = "@dataclasses.dataclass(frozen=True)\n";

/// Given: plugins that make dataclasses, and that take them. Expected: the next compile knows what they gave, and Python makes an
/// object of one that is known when it needs it.
#[test]
fn dataclasses_that_are_nothing_but_their_fields_are_known() {
    let model = "import m\nr = m::moved(m::made(\"x\", 3))\nstd::print(m::shown(r))\nstd::print(r.first + 1)\n\
         std::print([one.name for one in m::all_made(2)])\nown = m::Range(name=\"own\", first=1, tags=[])\n\
         std::print(m::shown(own))\nstd::print(m::more(own))\n";
    let methods = "\n    @property\n    def last(self):\n        return self.first + 9\n\n    \
                   def upper(self):\n        return Range(self.name.upper(), self.first).name\n";
    let code = range(FROZEN, methods, "return f\"{given.last} {given.upper()}\"");
    let case = case("", &code);
    case.write("libs/m/model/_init.cf", RANGE);
    case.write("main.cf", model);
    let first = printed(&case, 1);
    assert_eq!(printed(&case, 0), first);
    for line in ["ax 31 ['x']", "32", "own 1 []", "10 OWN"] {
        assert!(first.lines().any(|printed| printed == line), "{first}");
    }
    // Other values are others, and what was known before goes to Python as an object.
    case.write("main.cf", &format!("{model}std::print(m::more(r))\n"));
    let second = printed(&case, 1);
    assert!(second.lines().any(|printed| printed == "40 AX"), "{second}");
    assert_eq!(printed(&case, 0), second);
    let other = model.replace(
        "\"own\", first=1, tags=[]",
        "\"own\", first=1, tags=[\"t\"]",
    );
    case.write("main.cf", &other);
    let third = printed(&case, 1);
    assert!(
        third.lines().any(|printed| printed == "own 1 ['t']"),
        "{third}"
    );
}

/// Given: a dataclass that holds what its field is not declared for (1 for a float), which the wider attribute takes. Expected:
/// plugins get this object in each compile; from its fields Python would make none.
#[test]
fn an_object_that_its_fields_could_not_make_is_made_by_its_plugin_each_time() {
    let model = "import m\nr = m::made(\"x\", 3)\nstd::print(m::shown(r))\n";
    let code = range(FROZEN, "", "return str(given.first)");
    let code = code.replace("first: int", "first: float");
    let case = case("", &code);
    let wide = RANGE.replace("int first", "number first");
    case.write("libs/m/model/_init.cf", &wide);
    case.write("main.cf", model);
    assert_eq!(printed(&case, 1), "ax 30 ['x']\n");
    case.write("main.cf", &format!("{model}std::print(m::more(r))\n"));
    assert_eq!(printed(&case, 1), "ax 30 ['x']\n30\n");
}

/// Given: dataclasses with code of their own that does more than compute, and a plugin that changes one. Expected: they are made
/// each time.
#[test]
fn dataclasses_with_more_to_them_are_made_each_time() {
    let model =
        "import m\nr = m::made(\"x\", 3)\nstd::print(m::more(r))\nstd::print(m::shown(r))\n";
    let plain = "return given.name";
    let init = "\n    def __post_init__(self):\n        os.environ[\"RANGE\"] = self.name\n";
    let method = "\n    def changed(self):\n        return os.environ.get(\"HOME\", \"\")[:0]\n";
    let replaced = "\ndef set_up():\n    object.__setattr__(Range, \"upper\", 1)\n";
    let hashed = FROZEN.replace("frozen=True", "frozen=True, eq=bool(os.sep)");
    let changes = "given.tags.append(\"more\")\n    return given.name";
    for (class, methods, more) in [
        (FROZEN, init, plain),
        (FROZEN, method, "return given.changed()"),
        (&hashed, replaced, plain),
        (FROZEN, "", changes),
    ] {
        let case = case("", &range(class, methods, more));
        case.write("libs/m/model/_init.cf", RANGE);
        case.write("main.cf", model);
        let first = printed(&case, 1);
        assert_eq!(printed(&case, 1), first, "{class}{methods}{more}");
        assert_eq!(first.contains("more"), more == changes, "{first}");
    }
}

/// A class of references, plugins that make some and hand them on, and resources that hold them. `OWN` is what the class adds.
const SECRETS: &str = "import os\nfrom inmanta.plugins import plugin\nfrom inmanta.references import Reference, reference\n\
                       from inmanta.resources import Resource, resource\n\n\n@reference(\"m::Vault\")\nclass Vault(Reference[str]):\n    \
                       def __init__(self, path: str | Reference[str], key: str = \"k\") -> None:\n        \
                       super().__init__()\n        self.path = path\n        self.key = key\n\n    \
                       def resolve(self, logger) -> str:\n        return os.environ[self.key]\nOWN\n\n\
                       @plugin\ndef vault(path: str | Reference[str], key: str = \"k\") -> Reference[str]:\n    \
                       return Vault(path, key)\n\n\n\
                       @plugin\ndef inner(path: str) -> Reference[str]:\n    found = Vault(path, \"inner\")\n    return Vault(found)\n\n\n\
                       @plugin\ndef same(given: str | Reference[str]) -> str | Reference[str]:\n    return given\n\n\n\
                       @plugin\ndef looks(given: str | Reference[str]) -> str:\n    return repr(given)[:0] + type(given).__name__\n\n\n\
                       @plugin\ndef all_of(names: list[str]) -> list[Reference[str]]:\n    return [Vault(name) for name in names]\n\n\n\
                       @resource(\"__config__::Secret\", id_attribute=\"name\", agent=\"agent\")\nclass Secret(Resource):\n    \
                       fields = (\"name\", \"value\")\n";
const SECRET: &str = "import m\nentity Secret extends std::Resource:\n    string name\n    string agent = \"a\"\n    string value\nend\n\
                      implement Secret using std::none\nhome = std::create_environment_reference(\"HOME\")\n\
                      Secret(name=\"text\", value=m::vault(\"path\"))\nSecret(name=\"home\", value=m::vault(home, key=\"x\"))\n\
                      Secret(name=\"inner\", value=m::inner(\"deep\"))\nSecret(name=\"same\", value=m::same(home))\n\
                      Secret(name=\"twice\", value=m::vault(m::vault(home)))\n\
                      Secret(name=\"first\", value=m::same(\"a\"))\n";

/// Given: plugins that give references that are nothing but their arguments, and hand on those that they get. Expected: the next
/// compile knows them, and Python makes one that it needs.
#[test]
fn references_that_are_nothing_but_their_arguments_are_known() {
    let secret = SECRET.replace(
        "value=m::same(\"a\")",
        "value=[one for one in m::all_of([\"a\"])] == [m::vault(\"a\")] ? \"equal\" : \"other\"",
    );
    let case = case(&secret, &SECRETS.replace("OWN", ""));
    case.check(1);
    case.check(0);
    let (seen, _) = case.run(true);
    assert_eq!(
        seen.export.matches("\"core::Replace\"").count(),
        5,
        "{}",
        seen.export
    );
    assert_eq!(
        seen.export.matches("\"equal\"").count(),
        1,
        "{}",
        seen.export
    );
    // Another argument of the inner one, and another order.
    let other = "home = std::create_environment_reference(\"HOME\")\n";
    let path = format!("path = std::create_environment_reference(\"PATH\")\n{other}");
    let changed = secret
        .replace(other, &path)
        .replace("m::vault(home, key", "m::vault(path, key");
    case.write("main.cf", &changed);
    case.check(1);
    case.check(0);
    // One that is known goes to Python, which looks at it, and asks what stands behind it.
    case.write(
        "main.cf",
        &format!("{secret}std::print(m::looks(m::inner(\"deep\")))\nstd::print(m::looks(m::vault(home, key=\"x\")))\n"),
    );
    for _ in 0..2 {
        assert_eq!(printed(&case, 1), "Vault\nVault\n");
    }
}

/// Given: the same variable, set to two equal references, one of which an earlier compile knew. Expected: no second value.
#[test]
fn equal_references_are_equal_wherever_they_come_from() {
    let head = "import m\nentity Holder:\n    string value\nend\nimplement Holder using std::none\nh = Holder()\n";
    let code = format!(
        "{}\n@plugin\ndef kept(path: str) -> Reference[str]:\n    os.environ[\"KEPT\"] = path\n    return Vault(path)\n",
        SECRETS
            .replace("OWN", "")
            .replace("__config__::Secret", "m::Thing")
    );
    let case = case("", &code);
    for (model, expected) in [
        ("h.value = m::vault(\"a\")\n", true),
        (
            "h.value = m::vault(\"a\")\nh.value = m::kept(\"a\")\n",
            true,
        ),
        (
            "h.value = m::kept(\"a\")\nh.value = m::vault(\"a\")\n",
            true,
        ),
        (
            "h.value = m::vault(\"a\")\nh.value = m::vault(\"b\")\n",
            false,
        ),
        (
            "h.value = m::vault(\"a\")\nh.value = m::kept(\"b\")\n",
            false,
        ),
    ] {
        case.write("main.cf", &format!("{head}{model}"));
        for _ in 0..2 {
            let (_, kept) = case.run(true);
            let (_, plain) = case.run(false);
            assert_eq!(
                kept.succeeded(),
                expected,
                "{model}: {:#?}",
                kept.diagnostics
            );
            assert_eq!(kept.diagnostics, plain.diagnostics);
        }
    }
}

/// Given: references with code of their own, and plugins that look at those that they get. Expected: they are made each time.
#[test]
fn references_with_more_to_them_are_made_each_time() {
    let hidden = "\n    @property\n    def arguments(self):\n        return {\"path\": \"p\", \"key\": \"k\"}\n";
    let text = "\n    def __repr__(self):\n        return os.environ.get(\"HOME\", \"\")[:0] + \"Vault\"\n";
    for own in [hidden, text] {
        let case = case(SECRET, &SECRETS.replace("OWN", own));
        case.check(1);
        case.check(1);
    }
    // What stands behind a reference may be another value by now.
    let model = format!("{SECRET}std::print(m::read(home))\n");
    let code = format!(
        "{}\n@plugin\ndef read(given: str | Reference[str]) -> str:\n    return given.name\n",
        SECRETS.replace("OWN", "")
    );
    let case = case(&model, &code);
    for _ in 0..2 {
        assert_eq!(printed(&case, 1), "HOME\n");
    }
}

/// Given: a plugin that gives an Unknown for some arguments. Expected: that is known, and resources wait for it as before.
#[test]
fn unknowns_that_a_plugin_gives_are_known() {
    let model = "import m\nm::Thing(name=m::place(\"a\"), agent=\"x\")\nm::Thing(name=m::place(\"b\"), agent=\"x\")\n\
                 std::print(std::is_unknown(m::place(\"a\")))\n";
    let code = format!(
        "from inmanta.execute.util import Unknown\n{CLASS}@plugin\ndef place(name: \"string\") -> \"string\":\n    \
         if name == \"a\":\n        return Unknown(source=None)\n    return name\n"
    );
    let case = case(model, &code);
    case.check(1);
    assert_eq!(printed(&case, 0), "True\n");
    let asked = code.replace("Unknown(source=None)", "Unknown(source=object())");
    case.write("libs/m/plugins/__init__.py", &asked);
    case.check(1);
    case.check(1);
}

const CLASS: &str = "from inmanta.plugins import plugin\nfrom inmanta.resources import Resource, resource\n\n\
                     @resource(\"m::Thing\", id_attribute=\"name\", agent=\"agent\")\nclass Thing(Resource):\n    fields = (\"name\",)\n\n";

/// Given: a plugin that warns about some arguments, and says something about all. Expected: it is known, and what it says comes in
/// each compile, once.
#[test]
fn what_a_known_call_says_comes_in_each_compile() {
    let quiet = "import m\nstd::print(m::shout(\"a\"))\n";
    let loud = "import m\nstd::print(m::shout(\"a\"))\nstd::print(m::shout(\"\"))\n";
    let code = "import logging\nLOGGER = logging.getLogger(__name__)\n\n@plugin\ndef shout(text: \"string\") -> \"string\":\n    \
                if not text:\n        LOGGER.warning(\"nothing to %s\", \"shout\")\n    LOGGER.info(\"shouts é\\n\" + text)\n    return text.upper()\n";
    let case = case(quiet, &format!("{HEAD}{code}"));
    for (model, n_warnings, said) in [
        (quiet, 0, "shouts é\na\n"),
        (loud, 1, "shouts é\na\nshouts é\n\n"),
    ] {
        case.write("main.cf", model);
        for n_starts in [1, 0, 0] {
            case.check(n_starts);
            let (_, compiled) = case.run(true);
            let warned = compiled.diagnostics.iter();
            let warned = warned.filter(|it| it.message == "nothing to shout");
            assert_eq!(warned.count(), n_warnings);
            assert_eq!(compiled.plugin_output, said);
            let (_, plain) = case.run(false);
            assert_eq!(plain.plugin_output, said);
        }
    }
    // One that fails says it, too, and is asked each time.
    let failing = code.replace("return text", "return [text][len(text)]");
    case.write("libs/m/plugins/__init__.py", &format!("{HEAD}{failing}"));
    case.write("main.cf", "import m\nm::shout(\"a\")\n");
    for _ in 0..2 {
        let (seen, compiled) = case.run(true);
        assert!(!compiled.succeeded() && seen.n_starts == 1);
        assert_eq!(compiled.plugin_output, "shouts é\na\n");
    }
}

/// Given: a plugin that says something in a call that Python makes ahead, and is called in its turn. Expected: it is said once.
#[test]
fn what_a_call_says_that_was_made_ahead_is_said_once() {
    let text = "a = Site(name=\"a\", ends=[End(name=\"x\", port=10)])\nb = Site(name=\"b\")\nc = Site(name=\"c\")\nd = Site(name=\"d\")\n";
    let head = format!("import logging\nLOGGER = logging.getLogger(__name__)\n{HEAD}");
    let code = DESCRIBED.replace(
        "    return",
        "    LOGGER.info(site.name)\n    LOGGER.warning(site.name)\n    return",
    );
    let case = case(&sites(text), &format!("{head}{code}"));
    let mut first = None;
    for n_starts in [1, 0] {
        case.check(n_starts);
        let (_, compiled) = case.run(true);
        let warned = compiled.diagnostics.iter();
        let mut said: Vec<_> = compiled.plugin_output.lines().map(str::to_owned).collect();
        said.sort();
        assert_eq!(said, ["a", "b", "c", "d"]);
        let mut warned: Vec<_> = warned.map(|it| it.message.clone()).collect();
        warned.sort();
        let before = first.get_or_insert_with(|| warned.clone());
        assert_eq!(*before, warned);
    }
}

/// Given: templates with more filters that are plugins than a rendering is begun again for: they read instances, give lists and
/// dicts, say something, have a return type with a condition, and one does more than compute, so that a rendering has known and
/// unknown calls by turns. Expected: the text is the same from memory, what is said is said each time, and only the last one needs Python.
#[test]
fn filters_of_templates_are_known() {
    let head = "import m\nentity Site:\n    string name\n    string text\nend\n\
                Site.ends [0:] -- Site.of [0:]\nimplement Site using described\n\
                implementation described for Site:\n    self.text = std::template(\"m/site.j2\")\n    std::print(self.text)\nend\n";
    let sites =
        "a = Site(name=\"a\")\nb = Site(name=\"b\", ends=[a])\nc = Site(name=\"c\", ends=[a, b])\n";
    let template = "{% for e in ends | sort(attribute='name') %}{{ e | m.shown }} {{ e.name | m.shout }} {{ e.name | m.parts | join('-') }} \
                    {{ (e.name | m.table).k }} {{ e.name | m.few }} {{ [e.name, 1, none, {'a': 2.5}] | m.told(true) }}\n{% endfor %}\
                    {{ 'x' | m.shout }}{{ ('y' | m.shout) | m.shout }}";
    let code = "import logging\nLOGGER = logging.getLogger(__name__)\n\n\
                @plugin\ndef shown(site: \"any\") -> \"string\":\n    return site.name + str(len(site.of))\n\n\
                @plugin\ndef shout(text: \"string\") -> \"string\":\n    return text.upper()\n\n\
                @plugin\ndef parts(text: \"string\") -> \"string[]\":\n    return [text, text]\n\n\
                @plugin\ndef table(text: \"string\") -> \"dict\":\n    return {\"k\": [text, None, 1.5]}\n\n\
                @plugin\ndef few(text: \"string\") -> \"m::short\":\n    return text\n\n\
                @plugin\ndef told(values: \"any\", loud: \"bool\" = False) -> \"string\":\n    LOGGER.info(\"told %s\", loud)\n    \
                return str(len(values))\n\n";
    let case = case(&format!("{head}{sites}"), &format!("{HEAD}{code}"));
    let short = "typedef short as string matching std::length(self) < 9\n";
    case.write("libs/m/model/_init.cf", short);
    case.write("libs/m/templates/site.j2", template);
    let first = printed(&case, 1);
    assert!(first.contains("a2 A a-a "), "{first}");
    for _ in 0..2 {
        assert_eq!(printed(&case, 0), first);
        let (_, compiled) = case.run(true);
        assert_eq!(compiled.plugin_output, case.run(false).1.plugin_output);
    }
    // With a call in the middle that Python has to make.
    let impure = code.replace("return [text, text]", "return [text, str(id(text) > 0)]");
    case.write("libs/m/plugins/__init__.py", &format!("{HEAD}{impure}"));
    let first = printed(&case, 1);
    assert!(first.contains("a2 A a-True"), "{first}");
    for _ in 0..2 {
        assert_eq!(printed(&case, 1), first);
    }
    // A type that does not hold any more is noticed, though the answers are known.
    case.write("libs/m/plugins/__init__.py", &format!("{HEAD}{code}"));
    printed(&case, 0);
    let wrong = "Return value a of plugin m::few";
    case.write("libs/m/model/_init.cf", &short.replace('9', "1"));
    for _ in 0..2 {
        let (_, compiled) = case.run(true);
        let texts: Vec<String> = compiled
            .diagnostics
            .iter()
            .map(|it| format!("{it:?}"))
            .collect();
        assert!(texts.iter().any(|text| text.contains(wrong)), "{texts:?}");
    }
}

/// Given: plugins and getters that read files of their module, by names from the model. Expected: they are known until one of the
/// files that a call has read changes; a file that is not there is looked for each time, and a module that lists a folder is asked each time.
#[test]
fn files_that_plugins_read_are_known_until_they_change() {
    let model = "import m\nstd::print(m::site(\"a\"))\nstd::print(m::site(\"b\"))\nm::Thing(name=\"a\", agent=\"x\")\n";
    let code = "import json, os\nfrom pathlib import Path\nfrom inmanta.resources import Resource, resource\nHERE = Path(__file__).parent.parent\n\n\
                def load(name):\n    with open(os.path.join(os.path.dirname(__file__), \"..\", \"files\", name + \".json\")) as file:\n        \
                return json.load(file)\n\n\
                @plugin\ndef site(name: \"string\") -> \"string\":\n    return load(name)[\"city\"] + (HERE / \"files\" / \"all.txt\").read_text()\n\n\
                @resource(\"m::Thing\", id_attribute=\"name\", agent=\"agent\")\nclass Thing(Resource):\n    fields = (\"name\", \"city\")\n    \
                @staticmethod\n    def get_city(_, thing):\n        return load(thing.name)[\"city\"]\n";
    let case = case(model, &format!("{HEAD}{code}"));
    let city = |name: &str, city: &str| {
        case.write(
            &format!("libs/m/files/{name}.json"),
            &format!("{{\"city\": \"{city}\"}}"),
        );
    };
    case.write("libs/m/files/all.txt", "!");
    city("a", "Ghent");
    city("b", "Bruges");
    for n_starts in [1, 0, 0] {
        assert_eq!(printed(&case, n_starts), "Ghent!\nBruges!\n");
    }
    city("b", "Ostend");
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "Ghent!\nOstend!\n");
    }
    city("a", "Namur");
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "Namur!\nOstend!\n");
        assert!(case.run(true).0.export.contains("\"city\": \"Namur\""));
    }
    case.write("libs/m/files/all.txt", "?");
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "Namur?\nOstend?\n");
    }
    // A file is changed while the compile goes on: what was read of it is not kept.
    let changing = code.replace(
        "    return load(name)",
        "    import_time(name)\n    return load(name)",
    );
    let changing = format!(
        "{changing}\ndef import_time(name):\n    (HERE / \"files\" / \"all.txt\").write_text(name)\n"
    );
    case.write("libs/m/plugins/__init__.py", &format!("{HEAD}{changing}"));
    for _ in 0..2 {
        assert_eq!(printed(&case, 1), "Namura\nOstendb\n");
    }
    // One that may be there or not.
    let missing = "\n@plugin\ndef note(name: \"string\") -> \"string\":\n    try:\n        return open(os.path.join(os.path.dirname(__file__), name)).read()\n    \
                   except FileNotFoundError:\n        return \"none\"\n";
    case.write(
        "libs/m/plugins/__init__.py",
        &format!("{HEAD}import os\n{missing}"),
    );
    case.write("main.cf", "import m\nstd::print(m::note(\"note.txt\"))\n");
    for _ in 0..2 {
        assert_eq!(printed(&case, 1), "none\n");
    }
    case.write("libs/m/plugins/note.txt", "some");
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "some\n");
    }
}

/// Given: a plugin that reads a variable of the environment. Expected: it is known, for each value apart.
#[test]
fn variables_that_plugins_read_are_known() {
    let model = "import m\nstd::print(m::region(\"a\"))\n";
    let code = "@plugin\ndef region(name: \"string\") -> \"string\":\n    import os\n    return name + os.environ.get(\"REGION\", \"eu\")\n";
    let case = case(model, &format!("{HEAD}{code}"));
    for n_starts in [1, 0] {
        assert_eq!(printed(&case, n_starts), "aeu\n");
    }
}

/// Given: plugins that read tables with dicts and lists in them, which nobody changes, or which a plugin changes. Expected: the
/// former are known, the latter are called.
#[test]
fn plugins_that_read_tables_in_tables_are_known() {
    let model =
        "import m\nstd::print(m::named(\"a\", \"x\"))\nstd::print(m::named(\"b\", \"x\"))\n";
    let code = "NAMES = {\"a\": {\"x\": \"one\"}, \"b\": {\"x\": \"two\", \"y\": \"three\"}}\n\n\
                @plugin\ndef named(of: \"string\", kind: \"string\") -> \"string\":\n    names = NAMES.get(of) or {}\n    return names[kind]\n";
    let case = case(model, &format!("{HEAD}{code}"));
    case.check(1);
    assert_eq!(printed(&case, 0), "one\ntwo\n");
    let changing = format!(
        "{HEAD}{code}\n@plugin\ndef add(of: \"string\", name: \"string\") -> \"string\":\n    names = NAMES[of]\n    \
         names[\"x\"] += name\n    return name\n"
    );
    case.write("libs/m/plugins/__init__.py", &changing);
    case.check(1);
    case.write(
        "main.cf",
        &format!("{model}std::print(m::add(\"a\", \"!\"))\n"),
    );
    case.check(1);
    case.check(1);
}

/// Given: plugins that use more of Python's library and objects of their own, and one that copies an instance, which shows all of
/// it. Expected: the former are known, with what they give; the latter is called each time.
#[test]
fn plugins_that_use_more_of_the_library_are_known() {
    let model = "import m\nentity Site:\n    string name\nend\nimplement Site using std::none\ns = Site(name=\"s\")\n\
                 std::print(m::slug(\"A b/c\") + m::document(s, [\"x\", \"y\"]) + m::days(\"1970-02-01\"))\n";
    let code = "import copy, datetime, json\nimport xml.etree.ElementTree as ET\nfrom dataclasses import dataclass\n\n\
                TABLE = str.maketrans({\" \": \"_\", \"/\": \"-\"})\nBASE = {\"of\": {\"kind\": \"site\"}}\n\n\
                @dataclass\nclass Part:\n    name: str\n    size: int = 1\n\n\
                @plugin\ndef slug(text: \"string\") -> \"string\":\n    return text.lower().translate(TABLE)\n\n\
                @plugin\ndef document(site: \"any\", names: \"string[]\") -> \"string\":\n    \
                out = copy.deepcopy(BASE)\n    out[\"of\"][\"name\"] = site.name\n    \
                for part in [Part(name) for name in names]:\n        out.setdefault(\"parts\", {})[part.name] = part.size\n    \
                root = ET.Element(type(site).__name__)\n    ET.SubElement(root, \"a\").text = json.dumps(out)\n    \
                return ET.tostring(root).decode()\n\n\
                @plugin\ndef days(text: \"string\") -> \"string\":\n    return str((datetime.date.fromisoformat(text) - datetime.date(1970, 1, 1)).days)\n";
    let case = case(model, &format!("{HEAD}{code}"));
    let expected = "a_b-c<DynamicProxy><a>{\"of\": {\"kind\": \"site\", \"name\": \"s\"}, \"parts\": {\"x\": 1, \"y\": 1}}</a></DynamicProxy>31\n";
    assert_eq!(printed(&case, 1), expected);
    assert_eq!(printed(&case, 0), expected);
    let copied = code.replace("type(site)", "type(copy.copy(site))");
    case.write("libs/m/plugins/__init__.py", &format!("{HEAD}{copied}"));
    for _ in 0..2 {
        assert_eq!(printed(&case, 1), expected);
    }
}
