//! The ids of contract clauses in test names: `att_07_second_profiler_is_refused` holds clause ATT-07.
//!
//! A mistyped id would hold nothing and nobody would see it.

/// The families of clauses, as they begin a test's name.
const FAMILIES: [&str; 10] = ["att", "cat", "cmp", "ctl", "det", "elt", "gch", "mod", "rjt", "sbs"];
/// The highest number in each family.
const HIGHEST: [u32; 10] = [22, 9, 2, 1, 23, 2, 6, 1, 1, 5];

/// The test names that look like a clause and are none.
pub fn check(text: &str) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let mut is_test = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line == "#[test]" {
            is_test = true;
        } else if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
            if let (true, Some(fault)) = (is_test, fault(name)) {
                findings.push((number + 1, format!("`{name}`: {fault}")));
            }
            is_test = false;
        }
    }
    findings
}

/// What is wrong with the ids that a name begins with.
fn fault(name: &str) -> Option<String> {
    let mut words = name.split('_').peekable();
    while let Some(place) = words.peek().and_then(|word| FAMILIES.iter().position(|family| family == word)) {
        words.next();
        // `cat` and `att` are words, too: a clause has two digits.
        let number = words.next_if(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        let valid = number.len() == 2 && number.parse().is_ok_and(|number: u32| (1..=HIGHEST[place]).contains(&number));
        if !valid {
            return Some(format!("there is no clause {}-{number}", FAMILIES[place].to_uppercase()));
        }
        if words.peek().is_none() {
            return Some("a clause's id, and not a word about what holds".into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_clauses_that_exist() {
        for name in ["att_07_second_profiler_is_refused", "det_01_det_14_no_trace", "plain_name", "cat_is_a_word"] {
            assert_eq!(fault(name), None, "{name}");
        }
        for (name, words) in
            [("att_7_x", "ATT-7"), ("att_99_x", "ATT-99"), ("det_01_det_99_x", "DET-99"), ("att_07", "not a word")]
        {
            let fault = fault(name).unwrap_or_default();
            assert!(fault.contains(words), "{name}: {fault}");
        }
    }

    #[test]
    fn only_tests_are_looked_at() {
        assert_eq!(check("fn att_99_x() {}\n").len(), 0);
        assert_eq!(check("#[test]\nfn att_99_x() {}\n").len(), 1);
    }
}
