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
    serde_json::from_str(json).expect("JSON")
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
