//! What the formats write, read back: enough to add up and to compare.
#![allow(dead_code, reason = "each test file uses some of these")]

use flate2::read::GzDecoder;
use remora_export::{Format, write};
use remora_profile::{ApplicationRule, Profile};
use serde_json::Value;
use std::io::Read;

/// The bytes of a profile in a format.
pub fn written(profile: &Profile, format: Format) -> Vec<u8> {
    let mut out = Vec::new();
    write(profile, format, &ApplicationRule::default(), &mut out).expect("a vector takes all");
    out
}

/// The text of a profile in a format that is text.
pub fn written_text(profile: &Profile, format: Format) -> String {
    String::from_utf8(written(profile, format)).expect("UTF-8")
}

/// The same in a compressed format, unpacked.
pub fn unpacked(profile: &Profile, format: Format) -> Vec<u8> {
    let packed = written(profile, format);
    let mut out = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut out).expect("gzip");
    out
}

/// The profile that travels in an HTML page.
pub fn page_data(profile: &Profile) -> Value {
    page_data_by(profile, &ApplicationRule::default())
}

/// The same by another rule.
pub fn page_data_by(profile: &Profile, rule: &ApplicationRule) -> Value {
    let mut page = Vec::new();
    write(profile, Format::Html, rule, &mut page).expect("a vector takes all");
    let page = String::from_utf8(page).expect("UTF-8");
    let (_, rest) = page.split_once(r#"<script type="application/json" id="profile">"#).expect("the profile");
    let (json, _) = rest.split_once("</script>").expect("its end");
    let mut data: Value = serde_json::from_str(json).expect("JSON");
    data["values"] = columns(data["values"].as_str().expect("packed numbers"));
    data
}

/// The columns of the packed values: one entry for each thread, stack and state.
fn columns(packed: &str) -> Value {
    let mut numbers = numbers(packed).into_iter();
    let mut next = || numbers.next().expect("a number");
    let mut rows = Vec::new();
    let (mut thread, mut node) = (0, 0);
    for _ in 0..next() {
        let step = next();
        let from =
            |place: u64, away: u64| if away.is_multiple_of(2) { place + away / 2 } else { place - away.div_ceil(2) };
        node = from(if step > 1 { 0 } else { node }, next());
        thread += step >> 1;
        let expanded = from(node, next());
        rows.push([thread, node, expanded, step & 1, next(), next(), next()]);
    }
    assert_eq!(numbers.next(), None);
    let names = ["thread", "node", "expanded", "blocked", "weight", "samples", "attribution"];
    let column = |at: usize| rows.iter().map(|row| row[at].into()).collect::<Vec<Value>>();
    names.iter().enumerate().map(|(at, name)| ((*name).to_owned(), Value::from(column(at)))).collect()
}

/// LEB128 numbers in base64.
fn numbers(text: &str) -> Vec<u64> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = text.trim_end_matches('=').chars().map(|digit| DIGITS.find(digit).expect("base64") as u64);
    let (mut bits, mut known, mut value, mut shift) = (0, 0, 0, 0);
    let mut found = Vec::new();
    for digit in digits {
        (bits, known) = (bits << 6 | digit, known + 6);
        if known < 8 {
            continue;
        }
        known -= 8;
        let byte = (bits >> known) & 0xff;
        bits &= (1 << known) - 1;
        value |= (byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            found.push(std::mem::take(&mut value));
            shift = 0;
        }
    }
    found
}

pub fn speedscope(profile: &Profile) -> Value {
    serde_json::from_slice(&written(profile, Format::Speedscope)).expect("JSON")
}

pub fn firefox(profile: &Profile) -> Value {
    serde_json::from_slice(&unpacked(profile, Format::Firefox)).expect("JSON")
}

/// The entries of an array.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not an array: {value}"))
}

pub fn sum(value: &Value) -> u64 {
    list(value).iter().map(|entry| entry.as_u64().expect("a whole number")).sum()
}
