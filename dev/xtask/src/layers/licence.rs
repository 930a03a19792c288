//! Checks that every third-party crate has an allowed licence.

use super::rules::Rules;
use serde_json::Value;
use std::collections::BTreeSet;

/// Every package whose licence is missing or not allowed.
pub fn violations(metadata: &Value, rules: &Rules) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let foreign = packages.filter(|package| !package["source"].is_null());
    let refused =
        foreign.filter(|package| !is_allowed(package["license"].as_str().unwrap_or_default(), &rules.licences));
    refused
        .map(|package| {
            let licence = package["license"].as_str().unwrap_or("no licence that cargo knows");
            format!("{} {} has {licence}, which layers.toml does not allow", package["name"], package["version"])
        })
        .collect()
}

/// Whether allowed licences alone satisfy `expression`, which is SPDX or the old form with a slash for OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words: Vec<&str> = spaced.split_whitespace().rev().collect();
    let verdict = alternatives(&mut words, allowed);
    verdict == Some(true) && words.is_empty()
}

/// Parses `A OR B OR ...`; `None` on a syntax error. Takes words from the end of the list.
fn alternatives(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut verdict = requirements(words, allowed)?;
    while words.last() == Some(&"OR") {
        words.pop();
        verdict |= requirements(words, allowed)?;
    }
    Some(verdict)
}

/// Parses `A AND B AND ...`.
fn requirements(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> Option<bool> {
    let mut verdict = single(words, allowed)?;
    while words.last() == Some(&"AND") {
        words.pop();
        verdict &= single(words, allowed)?;
    }
    Some(verdict)
}

/// Parses one licence with an optional exception, or an expression in parentheses.
fn single(words: &mut Vec<&str>, allowed: &BTreeSet<String>) -> Option<bool> {
    match words.pop()? {
        "(" => {
            let verdict = alternatives(words, allowed)?;
            (words.pop()? == ")").then_some(verdict)
        }
        ")" | "AND" | "OR" | "WITH" => None,
        licence if words.last() == Some(&"WITH") => {
            words.pop();
            let exception = words.pop()?;
            Some(allowed.contains(&format!("{licence} WITH {exception}")))
        }
        licence => Some(allowed.contains(licence)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_allowed_if_one_may_choose_so() {
        let allowed: BTreeSet<String> =
            ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"].map(str::to_owned).into();
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/Apache-2.0", true),
            ("GPL-3.0 OR MIT", true),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("CDDL-1.0", false),
            ("MIT AND GPL-3.0", false),
            ("MIT AND (CDDL-1.0 OR GPL-2.0)", false),
            ("MIT WITH surprise", false),
            ("", false),
            ("MIT OR", false),
            ("(MIT", false),
            ("MIT MIT", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }
}
