//! `remora heap --values` on live runtimes: fields and elements of a program with known values, in C# syntax.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what is missing in a test fails it")]

use remora_e2e::{Target, on_every_runtime, remora};
use remora_holds::holds;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// A snapshot of the test program.
struct Taken {
    _directory: tempfile::TempDir,
    file: PathBuf,
}

impl Taken {
    fn of(target: &Target, more: &[&str]) -> Taken {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("values.remora-heap");
        let process = target.pid().to_string();
        let take = ["heap", "--process-id", &process, "-o", file.to_str().unwrap()];
        remora(take.iter().chain(more)).succeeded();
        Taken { _directory: directory, file }
    }

    fn show(&self, what: &str) -> Value {
        remora(["heap", "show", self.file.to_str().unwrap(), what, "--json", "--top", "20000"]).succeeded().json()
    }

    fn words(&self, what: &str) -> String {
        remora(["heap", "show", self.file.to_str().unwrap(), what]).succeeded().text()
    }

    /// The only object of a type.
    fn only(&self, of: &str) -> Value {
        let all = self.show(of);
        let objects = all["objects"].as_array().unwrap();
        assert_eq!(objects.len(), 1, "{of}");
        self.at(&objects[0]["address"])
    }

    fn at(&self, address: &Value) -> Value {
        self.show(&format!("@{:#x}", address.as_u64().unwrap_or_else(|| panic!("{address}"))))
    }
}

fn field<'a>(of: &'a Value, name: &str) -> &'a Value {
    let fields = of["fields"].as_array().unwrap_or_else(|| panic!("{of:#}"));
    fields.iter().find(|field| field["name"] == name).unwrap_or_else(|| panic!("{name} of {of:#}"))
}

/// A value on one line; references without their target.
fn written(value: &Value) -> String {
    if let Some(text) = value["value"].as_str() {
        return text.to_owned();
    }
    if let Some(fields) = value["fields"].as_array() {
        let fields: Vec<String> =
            fields.iter().map(|field| format!("{}: {}", field["name"].as_str().unwrap(), written(field))).collect();
        return format!("{{{}}}", fields.join(", "));
    }
    if let Some(items) = value["items"].as_array() {
        return format!("({})", items.iter().map(written).collect::<Vec<_>>().join(", "));
    }
    if value["address"].is_u64() {
        return "@".to_owned();
    }
    value["missing"].as_str().unwrap_or("nothing").to_owned()
}

#[track_caller]
fn has_fields(of: &Value, expected: &[(&str, &str, &str)]) {
    let reported: Vec<(&str, &str, String)> = expected
        .iter()
        .map(|(name, _, _)| {
            let field = field(of, name);
            (*name, field["type"].as_str().unwrap(), written(field))
        })
        .collect();
    let expected: Vec<(&str, &str, String)> =
        expected.iter().map(|(name, of, value)| (*name, *of, (*value).to_owned())).collect();
    holds!(GCH_06 rem, reported == expected);
}

#[track_caller]
fn elements(taken: &Taken, of: &Value, name: &str) -> Vec<String> {
    let array = taken.at(&field(of, name)["address"]);
    array["elements"]["first"].as_array().unwrap_or_else(|| panic!("{array:#}")).iter().map(written).collect()
}

#[test]
fn gch_06_fields_are_reported_with_their_values_as_csharp_writes_them() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let taken = Taken::of(&target, &["--values"]);
        has_fields(
            &taken.only("Known.Primitives"),
            &[
                ("True", "bool", "true"),
                ("False", "bool", "false"),
                ("Letter", "char", "'x'"),
                ("Quote", "char", r"'\''"),
                ("Accent", "char", "'é'"),
                ("SignedByte", "sbyte", "-100"),
                ("Byte", "byte", "200"),
                ("Short", "short", "-30000"),
                ("UnsignedShort", "ushort", "60000"),
                ("Int", "int", "-2000000000"),
                ("UnsignedInt", "uint", "4000000000"),
                ("Long", "long", "-9000000000000000000"),
                ("UnsignedLong", "ulong", "18000000000000000000"),
                ("Float", "float", "0.1"),
                ("Double", "double", "-1.5E+300"),
                ("Native", "nint", "-5"),
                ("UnsignedNative", "nuint", "5"),
                ("Text", "string", r#""a \"known\" text""#),
                ("Empty", "string", "\"\""),
                ("None", "string", "null"),
                ("Colour", "Colour", "Colour.Blue"),
                ("Plain", "Plain", "(Plain)5"),
                ("Access", "Access", "Access.Read | Access.Write"),
                ("Everything", "Access", "Access.All"),
                ("Nobody", "Access", "Access.None"),
                ("Wide", "Wide", "Wide.Most"),
                ("Property", "int", "7"),
            ],
        );
        has_fields(
            &taken.only("Known.Times"),
            &[
                ("Utc", "DateTime", "2024-02-29 12:34:56.1234567 (UTC)"),
                ("Unspecified", "DateTime", "1999-12-31 00:00:00"),
                ("Span", "TimeSpan", "1.02:03:04.0050000"),
                ("Negative", "TimeSpan", "-00:00:01.5000000"),
                ("Guid", "Guid", "12345678-9abc-def0-1234-56789abcdef0"),
                ("Price", "decimal", "-12345.6789"),
                ("Most", "decimal", "79228162514264337593543950335"),
                ("Timed", "Timed", "{Before: 1, At: 2001-02-03 00:00:00, After: true}"),
            ],
        );
    });
}

#[test]
fn arrays_of_pointers_have_a_name_although_nobody_knows_what_they_point_to() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let taken = Taken::of(&target, &["--values"]);
        let pointers = taken.only("?*[]");
        let elements: Vec<String> = pointers["elements"]["first"].as_array().unwrap().iter().map(written).collect();
        assert_eq!(elements, ["0x0", "0x1234", "0x0"]);
        assert_eq!(pointers["object"]["bytes"], 24 + 3 * 8);
        assert_eq!(taken.only("?*[,]")["object"]["bytes"], 24 + 16 + 4 * 8);
    });
}

/// Once, a nullable tuple of two numbers was shown as its flag and its first number.
#[test]
fn gch_06_regression_what_the_runtime_lays_out_itself_is_reported_where_it_stands_in_something_else() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let taken = Taken::of(&target, &["--values"]);
        let tuples = taken.only("Known.Tuples");
        has_fields(
            &tuples,
            &[
                ("Ints", "(int, int)?", "(3, 4)"),
                ("Flagged", "(bool, int)?", "(true, 5)"),
                ("Bytes", "(byte, byte)?", "(6, 7)"),
                ("Floats", "(float, float)?", "(1.5, 2.5)"),
                ("Three", "(int, int, int)?", "(8, 9, 10)"),
                ("OfThree", "Around<(byte, byte, byte)>", "{Before: 1, Value: (2, 3, 4), After: 5}"),
                ("OfMixed", "Around<(byte, int, byte)>", "{Before: 1, Value: (2, 3, 4), After: 5}"),
                ("OfMaybe", "Around<(int, int)?>", "{Before: 1, Value: (2, 3), After: 4}"),
                ("OfAutomatic", "Around<Automatic>", "{Before: 1, Value: {A: 2, B: 3, C: 4}, After: 5}"),
                ("OfEntry", "Around<KeyValuePair<int, byte>>", "{Before: 1, Value: {key: 2, value: 3}, After: 4}"),
                ("Eight", "(byte, int, byte, int, byte, int, byte, string)", "(1, 2, 3, 4, 5, 6, 7, \"eight\")"),
                ("Nine", "(int, int, int, int, int, int, int, int, (int, int))?", "(1, 2, 3, 4, 5, 6, 7, 8, (9, 10))"),
                (
                    "Deep",
                    "Around<Around<(byte, byte, byte, byte, byte)>>",
                    "{Before: 1, Value: {Before: 2, Value: (3, 4, 5, 6, 7), After: 8}, After: 9}",
                ),
            ],
        );
        let reported = taken.at(&field(&tuples, "Boxed")["address"]);
        assert_eq!(written(&reported["boxed"]), "{Before: 1, Value: (2, 3), After: 4}");
    });
}

#[test]
fn gch_06_values_in_values_are_reported_whether_or_not_the_runtime_knows_a_class_of_theirs() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let taken = Taken::of(&target, &["--values"]);
        has_fields(
            &taken.only("Known.Nested"),
            &[
                ("Point", "Point", "{X: 3, Y: -4}"),
                (
                    "Mixed",
                    "Mixed",
                    "{Small: 9, Name: \"in a value\", Large: 1099511627776, At: {X: 5, Y: 6}, Last: -7}",
                ),
                ("Has", "int?", "42"),
                ("Has_not", "int?", "null"),
                ("Maybe", "Point?", "{X: 1, Y: 2}"),
                ("When", "DateTime?", "2020-01-01 00:00:00"),
                ("Tuple", "(int, string)", "(1, \"two\")"),
                ("Three", "(byte, long, bool)", "(1, 2, true)"),
                ("Entry", "KeyValuePair<string, int>", "{key: \"key\", value: 11}"),
                ("Pairs", "Pair<int, Pair<string, byte>>", "{First: 1, Second: {First: \"deep\", Second: 2}}"),
                ("Union", "Union", "{Number: 16909060, Low: 4, Next: 5}"),
                ("Packed", "Packed", "{A: 1, B: 2, C: 3}"),
                ("Nothing", "Nothing", "{}"),
                ("Shade", "Colour?", "Colour.Green"),
            ],
        );
        let derived = taken.only("Known.References");
        has_fields(
            &derived,
            &[
                ("Boxed", "object", "5"),
                ("BoxedEnum", "object", "Colour.Red"),
                ("BoxedTime", "object", "2000-01-01 00:00:00"),
                ("Nobody", "object", "null"),
                ("Other", "Base", "@"),
                ("Delegate", "Action", "@"),
                ("Interface", "IComparable", "\"comparable\""),
                ("OfInt", "Generic<int>", "@"),
            ],
        );
        let point = taken.at(&field(&derived, "BoxedPoint")["address"]);
        assert_eq!(written(&point["boxed"]), "{X: 8, Y: 9}");
        let other = taken.at(&field(&derived, "Other")["address"]);
        let rows: Vec<(&str, Option<&str>, String)> = other["fields"]
            .as_array()
            .unwrap()
            .iter()
            .map(|field| (field["name"].as_str().unwrap(), field["declared_by"].as_str(), written(field)))
            .collect();
        assert_eq!(
            rows,
            [
                ("Same", None, "3".to_owned()),
                ("Generic", Some("Middle<string>"), "\"of the middle\"".to_owned()),
                ("Same", Some("Base"), "1".to_owned()),
                ("Inherited", Some("Base"), "2".to_owned()),
            ]
        );
        // A referrer also shows the field of its reference.
        let from = &other["referred_from"][0];
        assert_eq!((&from["type"], &from["by"]), (&"Known.References".into(), &"Other".into()));
        let path = other["path"]["objects"].as_array().unwrap();
        let last: Vec<&str> =
            path[path.len() - 3..path.len() - 1].iter().filter_map(|one| one["by"].as_str()).collect();
        assert_eq!(last, ["[4]", "Other"], "{path:#?}");
        for (name, of, value) in
            [("OfInt", "int", "1"), ("OfPoint", "Point", "{X: 10, Y: 11}"), ("OfString", "string", "\"generic\"")]
        {
            let generic = taken.at(&field(&derived, name)["address"]);
            has_fields(&generic, &[("Value", of, value)]);
        }
        let delegate = taken.at(&field(&derived, "Delegate")["address"]);
        assert_eq!(field(&delegate, "_target")["address"], derived["object"]["address"]);
    });
}

/// The targets of an object with many fields, some of them null: the type of each, and the field that refers to it.
fn ways(taken: &Taken) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let all = taken.only("Known.References");
    let targets = all["refers_to"].as_array().unwrap().iter().map(|target| taken.at(&target["address"]));
    let mut ways: Vec<(String, String)> = targets
        .map(|target| {
            let from = target["referred_from"].as_array().unwrap().iter();
            let way = from.filter(|from| from["type"] == "Known.References").map(|from| text(&from["by"])).next();
            (text(&target["object"]["type"]), way.unwrap())
        })
        .collect();
    ways.sort();
    ways
}

#[test]
fn gch_06_fields_of_references_are_named_without_values_too() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let with = ways(&Taken::of(&target, &["--values"]));
        let without = ways(&Taken::of(&target, &[]));
        assert_eq!(with.len(), without.len());
        for (of, field) in &with {
            let is_meant = |way: &(String, String)| way.0 == *of && way.1.split('|').any(|name| name == field);
            holds!(GCH_06 rem, without.iter().any(is_meant), "{of} by {field}: {without:#?}");
        }
        let one = |name: &str| without.iter().any(|way| way.1 == name);
        assert!(one("Delegate") && one("OfPoint"), "{without:#?}");
        // `object Nobody`, which is null, and `Base Other` stand beside each other: nothing distinguishes them.
        assert!(one("Nobody|Other"), "{without:#?}");
    });
}

#[test]
fn gch_06_elements_of_arrays_are_reported() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        let taken = Taken::of(&target, &["--values"]);
        let arrays = taken.only("Known.Arrays");
        for (name, expected) in [
            ("Ints", &["1", "-2", "3"][..]),
            ("Bytes", &["1", "2", "3", "4", "5", "6", "7", "8", "9"]),
            ("Bools", &["true", "false"]),
            ("Texts", &["\"first\"", "null", "\"third\""]),
            ("Points", &["{X: 1, Y: 2}", "{X: 3, Y: 4}"]),
            (
                "Many",
                &[
                    "{Small: 1, Name: \"one\", Large: 10, At: {X: 2, Y: 0}, Last: 3}",
                    "{Small: 4, Name: \"two\", Large: 0, At: {X: 0, Y: 0}, Last: 0}",
                ],
            ),
            ("Square", &["1", "2", "3", "4", "5", "6"]),
            ("From", &["50", "60"]),
            ("Colours", &["Colour.Red", "Colour.Blue"]),
            ("Maybe", &["1", "null"]),
            ("Times", &["2010-01-01 00:00:00"]),
            ("Objects", &["1", "\"two\"", "null"]),
            ("Jagged", &["@", "@"]),
        ] {
            holds!(GCH_06 rem, elements(&taken, &arrays, name) == expected, "{name}");
        }
        let long = taken.at(&field(&arrays, "Long")["address"]);
        // The first stored word is the number of elements.
        assert_eq!(
            (long["elements"]["count"].as_u64(), long["bytes_not_kept"].as_u64()),
            (Some(5000), Some(8 * 5001 - 4096))
        );
        let from = field(&arrays, "From")["address"].as_u64().unwrap();
        let words = taken.words(&format!("@{from:#x}"));
        assert!(words.contains("  [5] = 50\n  [6] = 60\n"), "{words}");
        let mode = std::fs::metadata(&taken.file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "nobody else can read what the application holds");
    });
}

#[test]
fn gch_06_without_being_asked_for_no_value_of_the_application_is_in_a_snapshot() {
    on_every_runtime(|runtime| {
        let target = Target::start(runtime, "values", &[]);
        for more in [&[][..], &["--strings"]] {
            let taken = Taken::of(&target, more);
            let object = taken.only("Known.Primitives");
            holds!(GCH_06 rem, object["fields"] == Value::Null);
            // The bytes of its largest number.
            let number = 18_000_000_000_000_000_000_u64.to_le_bytes();
            let bytes = std::fs::read(&taken.file).unwrap();
            assert!(!bytes.windows(number.len()).any(|window| window == number));
        }
    });
}
