//! The types of pydantic that no typedef of std needs, but that `std::validate_type` knows. Source:
//! docs/reference/std.md § 6.

use num_traits::Signed;

use crate::stdlib::Value;
use crate::stdlib::durations;
use crate::stdlib::text_types as texts;
use crate::types::{Heap, cast};

/// URLs by the schemes that a type takes, and whether there has to be a host.
const URLS: [(&str, &[&str], bool); 15] = [
    ("AnyWebsocketUrl", &["ws", "wss"], true),
    ("WebsocketUrl", &["ws", "wss"], true),
    ("FtpUrl", &["ftp"], true),
    ("FileUrl", &["file"], false),
    (
        "CockroachDsn",
        &["cockroachdb", "cockroachdb+psycopg2", "cockroachdb+asyncpg"],
        true,
    ),
    ("AmqpDsn", &["amqp", "amqps"], false),
    ("RedisDsn", &["redis", "rediss"], false),
    ("KafkaDsn", &["kafka"], false),
    ("NatsDsn", &["nats", "tls", "ws", "wss"], false),
    ("SnowflakeDsn", &["snowflake"], true),
    (
        "MySQLDsn",
        &[
            "mysql",
            "mysql+mysqlconnector",
            "mysql+aiomysql",
            "mysql+asyncmy",
            "mysql+mysqldb",
            "mysql+pymysql",
            "mysql+cymysql",
            "mysql+pyodbc",
        ],
        true,
    ),
    (
        "MariaDBDsn",
        &["mariadb", "mariadb+mariadbconnector", "mariadb+pymysql"],
        true,
    ),
    (
        "ClickHouseDsn",
        &[
            "clickhouse+native",
            "clickhouse+asynch",
            "clickhouse+http",
            "clickhouse",
            "clickhouses",
            "clickhousedb",
        ],
        false,
    ),
    (
        "PostgresDsn",
        &[
            "postgres",
            "postgresql",
            "postgresql+asyncpg",
            "postgresql+pg8000",
            "postgresql+psycopg",
            "postgresql+psycopg2",
            "postgresql+psycopg2cffi",
            "postgresql+py-postgresql",
            "postgresql+pygresql",
        ],
        true,
    ),
    ("MongoDsn", &["mongodb", "mongodb+srv"], true),
];

/// Those that take a list of hosts.
const OF_SEVERAL_HOSTS: [&str; 2] = ["PostgresDsn", "MongoDsn"];

/// `None`: no type of this module.
pub(super) fn is_valid(heap: &Heap, name: &str, value: Value) -> Option<bool> {
    let text = match value {
        Value::Str(id) => Some(heap.str(id)),
        _ => None,
    };
    let on_text = |check: &dyn Fn(&str) -> bool| Some(text.is_some_and(check));
    if name == "datetime.timedelta" {
        return Some(match text {
            Some(text) => durations::is_duration(text),
            None => {
                let seconds = match value {
                    Value::Bool(_) => Some(1.0),
                    Value::Int(_) | Value::Big(_) | Value::Float(_) => heap.to_float(value),
                    _ => None,
                };
                seconds.is_some_and(durations::is_number)
            }
        });
    }
    let name = name.strip_prefix("pydantic.")?;
    if let Some((_, schemes, needs_host)) = URLS.iter().find(|(known, ..)| *known == name) {
        return on_text(&|text| {
            let short_enough = name != "WebsocketUrl" || text.chars().count() <= 2083;
            let several = OF_SEVERAL_HOSTS.contains(&name);
            short_enough && texts::is_url_of(text, schemes, *needs_host, several)
        });
    }
    if let Some(version) = name.strip_prefix("UUID") {
        let known = ["1", "3", "4", "5", "6", "7", "8"].contains(&version);
        let is_version = |text: &str| {
            let hex = text.strip_prefix("urn:uuid:").unwrap_or(text);
            let mut digits = hex.chars().filter(char::is_ascii_hexdigit);
            texts::is_uuid(text) && digits.nth(12) == version.chars().next()
        };
        return known.then(|| text.is_some_and(is_version));
    }
    // A number of seconds is one of UTC.
    let is_moment = match value {
        Value::Int(_) | Value::Big(_) | Value::Float(_) => {
            heap.to_float(value).is_some_and(texts::is_datetime_number)
        }
        _ => false,
    };
    match name {
        "AwareDatetime" => Some(match text {
            Some(text) => texts::is_datetime(text) && texts::has_zone(text),
            None => is_moment,
        }),
        "NaiveDatetime" => on_text(&|text| texts::is_datetime(text) && !texts::has_zone(text)),
        "SecretStr" | "SecretBytes" => Some(text.is_some()),
        "Json" => on_text(&is_json),
        // What a model can hold is JSON.
        "JsonValue" => Some(true),
        "PaymentCardNumber" => on_text(&is_card_number),
        "Base64Bytes" => on_text(&|text| base64(text, *b"+/").is_some()),
        "Base64UrlBytes" => on_text(&|text| base64(&as_url(text), *b"-_").is_some()),
        "Base64Str" => on_text(&|text| base64(text, *b"+/").is_some_and(|it| is_utf8(&it))),
        "Base64UrlStr" => {
            on_text(&|text| base64(&as_url(text), *b"-_").is_some_and(|it| is_utf8(&it)))
        }
        // There are no bytes in a model.
        "StrictBytes" => Some(false),
        "ByteSize" => Some(match value {
            Value::Bool(_) => true,
            Value::Int(_) | Value::Big(_) | Value::Float(_) => {
                let size = heap.to_float(value);
                size.is_some_and(|size| size >= 0.0 && size.fract() == 0.0)
            }
            _ => text.is_some_and(is_byte_size),
        }),
        _ => None,
    }
}

fn is_json(text: &str) -> bool {
    matches!(text.trim(), "NaN" | "Infinity" | "-Infinity")
        || serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Twelve to nineteen digits whose last one is their check digit (ISO/IEC 7812-1).
fn is_card_number(text: &str) -> bool {
    let digits = text.trim().as_bytes();
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(digit.wrapping_sub(b'0'));
            match (place % 2, digit * 2) {
                (0, _) => digit,
                (_, double @ 10..) => double - 9,
                (_, double) => double,
            }
        })
        .sum();
    (12..=19).contains(&digits.len())
        && digits.iter().all(u8::is_ascii_digit)
        && sum.is_multiple_of(10)
}

fn is_utf8(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok()
}

/// Texts of the alphabet for URLs may have the two characters of the other one, too.
fn as_url(text: &str) -> String {
    text.replace('+', "-").replace('/', "_")
}

/// What a text in base 64 stands for, read as Python reads it: characters that are no digits are skipped, and it ends where the
/// padding does. `None`: digits are missing at its end.
fn base64(text: &str, last: [u8; 2]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut in_group, mut padding, mut left) = (0u8, 0u8, 0u32);
    for byte in text.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            _ if byte == last[0] => 62,
            _ if byte == last[1] => 63,
            b'=' => {
                padding += 1;
                if in_group >= 2 && in_group + padding >= 4 {
                    return Some(bytes);
                }
                continue;
            }
            _ => continue,
        };
        padding = 0;
        left = left << 6 | u32::from(digit);
        in_group = (in_group + 1) % 4;
        match in_group {
            1 => {}
            2 => bytes.push((left >> 4) as u8),
            3 => bytes.push((left >> 2) as u8),
            _ => bytes.push(left as u8),
        }
    }
    (in_group == 0).then_some(bytes)
}

/// A number at the beginning and a unit behind it, `1.5 MiB`; what follows the unit is not looked at.
fn is_byte_size(text: &str) -> bool {
    if let Some(size) = cast::parse_int(text) {
        return !size.is_negative();
    }
    let text = text.trim_start();
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let whole = digits(text);
    let fraction = text[whole..].strip_prefix('.').map_or(0, digits);
    if whole + fraction == 0 {
        return false;
    }
    let end = if fraction > 0 {
        whole + 1 + fraction
    } else {
        whole
    };
    let unit = text[end..].trim_start();
    let end = unit.find(|c: char| !c.is_alphanumeric() && c != '_');
    is_unit(&unit[..end.unwrap_or(unit.len())].to_lowercase())
}

/// Nothing, a letter, or a letter and `b`, `ib`, `bit`, `ibit`; bytes and bits themselves have no letter.
fn is_unit(unit: &str) -> bool {
    if matches!(unit, "" | "b" | "bit") {
        return true;
    }
    let Some(rest) = unit.strip_prefix(['k', 'm', 'g', 't', 'p', 'e']) else {
        return false;
    };
    matches!(rest, "" | "b" | "ib" | "bit" | "ibit")
}
