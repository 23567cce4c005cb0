use super::{CompletionKind, Ide, Position, SymbolKind};
use crate::MemWorld;

const MODULE: &str = r#"
"""Things in racks."""
typedef port as int matching self > 0 and self < 65536
    """ A TCP port. """
entity Host extends Base:
    """
    A machine.
    :attr hostname: how it is called
    :attr port: where it listens
    """
    string hostname
    port port = 80
end
entity Base:
end
entity Disk:
    int size
end
Host.disks [0:] -- Disk.host [1]
    """ The disks of a host. """
index Host(hostname)
implementation none for Base:
end
implement Host using none
implement Base using none
implement Disk using std::none
default = Host(hostname="default")
"#;

const PLUGINS: &str = "from inmanta.plugins import plugin\n\n@plugin\ndef shout(text: \"string\", loud: \"bool\" = True) -> \"string\":\n    \"\"\" Makes noise. \"\"\"\n    return text\n";

/// The project with `main` as its main file, in which `$` is the place.
fn at(main: &str) -> (Ide, MemWorld, String, Position) {
    let offset = main.find('$').expect("a place");
    let text = main.replacen('$', "", 1);
    let world = MemWorld::default()
        .file("project.yml", "name: case\nmodulepath: libs")
        .file("main.cf", &text)
        .file("libs/m/module.yml", "name: m\nversion: 1.0.0\nlicense: x")
        .file("libs/m/model/_init.cf", MODULE)
        .file("libs/m/model/sub.cf", "entity Deep:\nend\n")
        .file("libs/m/plugins/__init__.py", PLUGINS);
    let position = super::position(&text, offset as u32);
    let ide = Ide::read(&world).expect("the project is read");
    (ide, world, text, position)
}

/// The line of the definition of what is at `$`, as `file:line text`.
fn definition(main: &str) -> String {
    let (ide, _, text, position) = at(main);
    let Some(place) = ide.definition("main.cf", position) else {
        return "nowhere".to_owned();
    };
    let source = match place.file.as_str() {
        "main.cf" => text.as_str(),
        "libs/m/model/_init.cf" => MODULE,
        _ => PLUGINS,
    };
    let line = source.lines().nth(place.start.line as usize).unwrap_or("");
    let from = place.start.column as usize;
    let to = if place.end.line == place.start.line {
        place.end.column as usize
    } else {
        line.len()
    };
    format!(
        "{}:{} {}",
        place.file,
        place.start.line + 1,
        &line[from..to]
    )
}

fn hover(main: &str) -> String {
    let (ide, _, _, position) = at(main);
    let hover = ide.hover("main.cf", position);
    hover.map_or_else(|| "nothing".to_owned(), |(text, _)| text)
}

/// Labels of the proposals of these kinds.
fn complete(main: &str, kinds: &[CompletionKind]) -> Vec<String> {
    let (ide, world, text, position) = at(main);
    let found = ide.completion(&world, "main.cf", &text, position);
    let found = found.into_iter().filter(|one| kinds.contains(&one.kind));
    found.map(|one| one.label).collect()
}

#[test]
fn definitions_are_found_from_their_uses() {
    let init = "libs/m/model/_init.cf";
    assert_eq!(
        definition("import m\nx = m::Ho$st(hostname=\"a\")"),
        format!("{init}:5 Host")
    );
    assert_eq!(
        definition("import m\nx = m::Host(host$name=\"a\")"),
        format!("{init}:11 hostname")
    );
    assert_eq!(
        definition("import m\nx = m::Host(hostname=\"a\")\ny = x.po$rt"),
        format!("{init}:12 port")
    );
    assert_eq!(
        definition("import m\nfor d in m::default.disks:\n    y = d.host.$hostname\nend"),
        format!("{init}:11 hostname")
    );
    assert_eq!(definition("import m\nx = 1\ny = $x"), "main.cf:2 x");
    assert_eq!(
        definition("import m\nz = m::def$ault"),
        format!("{init}:27 default")
    );
    assert_eq!(
        definition(
            "import m\nimplementation i for m::Host:\n    a = 1\n    if true:\n        b = $a\n    end\nend"
        ),
        "main.cf:3 a"
    );
    assert_eq!(
        definition("import m\nimplementation i for m::Host:\n    b = di$sks\nend"),
        format!("{init}:19 disks")
    );
    assert_eq!(
        definition("import m\nx = [h for h in [m::default] if $h.port == 1]"),
        "main.cf:2 h"
    );
    assert_eq!(
        definition("import m\nx = m::sho$ut(\"a\")"),
        "libs/m/plugins/__init__.py:4 "
    );
    assert_eq!(definition("import $m\n"), format!("{init}:1 "));
    assert_eq!(definition("x = \"$text\""), "nowhere");
}

#[test]
fn what_is_hovered_is_declared_and_explained() {
    assert_eq!(
        hover("import m\nx = m::H$ost()"),
        "```inmanta\nentity m::Host extends m::Base\n```\n\nA machine.\n:attr hostname: how it is called\n:attr port: where it listens"
    );
    assert_eq!(
        hover("import m\nx = m::Host(host$name=\"a\")"),
        "```inmanta\nstring m::Host.hostname\n```\n\nhow it is called"
    );
    assert_eq!(
        hover("import m\nx = m::default.di$sks"),
        "```inmanta\nm::Host.disks [0:] -- m::Disk.host [1]\n```\n\nThe disks of a host."
    );
    assert_eq!(
        hover("import m\n$x = [m::default]"),
        "```inmanta\nx: m::Host[]\n```"
    );
    assert_eq!(
        hover("import m\nx = m::sh$out(\"a\")"),
        "```inmanta\nm::shout(text: \"string\", loud: \"bool\" = True) -> \"string\"\n```\n\nMakes noise."
    );
    assert_eq!(
        hover("x = std::len$gth([])"),
        "```inmanta\nstd::length(value: string) -> int\n```"
    );
    assert_eq!(
        hover("import $m"),
        "```inmanta\nimport m\n```\n\nThings in racks."
    );
    assert_eq!(
        hover("import m\nentity X:\n    m::po$rt p\nend"),
        "```inmanta\ntypedef port as int matching self > 0 and self < 65536\n```\n\nA TCP port."
    );
}

#[test]
fn after_a_dot_come_attributes() {
    let kinds = [CompletionKind::Attribute];
    let host = ["requires", "provides", "hostname", "port", "disks"];
    assert_eq!(
        complete("import m\nx = m::Host(hostname=\"a\")\ny = x.$", &kinds),
        host
    );
    assert_eq!(
        complete(
            "import m\nx = m::Host(hostname=\"a\")\nx.po$\nz = 1",
            &kinds
        ),
        host
    );
    assert_eq!(
        complete(
            "import m\nimplementation i for m::Disk:\n    x = self.host.$\nend\n",
            &kinds
        ),
        host
    );
    assert_eq!(
        complete(
            "import m\nimplementation i for m::Host:\n    for d in disks:\n        y = d.$\n    end\nend\n",
            &kinds
        ),
        ["requires", "provides", "size", "host"]
    );
    assert_eq!(complete("import m\nm::Host.$", &kinds), host);
    assert!(complete("x = 1\ny = x.$", &kinds).is_empty());
}

#[test]
fn after_colons_come_the_members_of_a_namespace() {
    let all = [
        CompletionKind::Entity,
        CompletionKind::Typedef,
        CompletionKind::Plugin,
        CompletionKind::Variable,
        CompletionKind::Implementation,
        CompletionKind::Module,
    ];
    assert_eq!(
        complete("import m\nx = m::$", &all),
        ["Base", "Disk", "Host", "default", "none", "port", "shout"]
    );
    assert!(complete("x = std::le$", &all).contains(&"length".to_owned()));
}

#[test]
fn constructors_and_calls_are_completed_with_their_arguments() {
    let kinds = [CompletionKind::Argument];
    assert_eq!(
        complete("import m\nx = m::Host(hostname=\"a\", $", &kinds),
        ["requires", "provides", "port", "disks"]
    );
    assert_eq!(
        complete(
            "import m\nx = m::Host(hostname=f(a, b=1), po$)\ny = 1",
            &kinds
        ),
        ["requires", "provides", "port", "disks"]
    );
    assert_eq!(
        complete("import m\nx = m::shout($", &kinds),
        ["text", "loud"]
    );
}

#[test]
fn imports_are_completed_with_modules() {
    let kinds = [CompletionKind::Module];
    assert_eq!(
        complete("import $", &kinds),
        ["exec", "fs", "m", "std", "steward"]
    );
    assert_eq!(complete("import m::s$\nx = 1", &kinds), ["sub"]);
}

#[test]
fn names_in_scope_are_proposed() {
    let variables = [CompletionKind::Variable];
    assert_eq!(
        complete(
            "import m\nouter = 1\nimplementation i for m::Host:\n    inner = 2\n    for each in disks:\n        y = $\n    end\nend\n",
            &variables
        ),
        ["each", "inner", "outer", "self"]
    );
    let others = complete(
        "import m\nentity Mine:\nend\nx = $",
        &[CompletionKind::Entity, CompletionKind::Module],
    );
    assert_eq!(others, ["Mine", "m", "std"]);
    assert!(complete("x = \"$", &variables).is_empty());
    assert!(complete("x = 1 # $", &variables).is_empty());
}

#[test]
fn an_outline_has_what_a_file_defines() {
    let symbols = Ide::symbols("m.cf", MODULE).expect("an outline");
    let names: Vec<_> = symbols
        .iter()
        .map(|symbol| (symbol.name.as_str(), symbol.kind, symbol.children.len()))
        .collect();
    assert_eq!(
        names,
        [
            ("port", SymbolKind::Typedef, 0),
            ("Host", SymbolKind::Entity, 2),
            ("Base", SymbolKind::Entity, 0),
            ("Disk", SymbolKind::Entity, 1),
            ("Host.disks", SymbolKind::Relation, 0),
            ("none", SymbolKind::Implementation, 0),
            ("default", SymbolKind::Variable, 0),
        ]
    );
}

#[test]
fn columns_are_counted_in_utf_16() {
    let text = "é = 1\n𝄞𝄞x\n";
    let x = text.find('x').expect("x") as u32;
    let position = super::position(text, x);
    assert_eq!((position.line, position.column), (1, 4));
    assert_eq!(super::offset(text, position), Some(x));
}

#[test]
fn any_place_of_any_text_has_an_answer() {
    let text = MODULE
        .replace("[0:]", "[0:")
        .replace("end\nentity Disk", "entity Disk");
    let world = MemWorld::default()
        .file("project.yml", "name: case")
        .file("main.cf", &text);
    let ide = Ide::read(&world).expect("the project is read");
    for (offset, _) in text.char_indices() {
        let position = super::position(&text, offset as u32);
        ide.definition("main.cf", position);
        ide.hover("main.cf", position);
        ide.completion(&world, "main.cf", &text, position);
    }
}
