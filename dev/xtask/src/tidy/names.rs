//! The clause ids in test names: `att_07_second_profiler_is_refused` tests clause ATT-07.
//!
//! A mistyped id would silently test nothing.

/// The clause families, as prefixes of test names.
const FAMILIES: [&str; 10] = ["att", "cat", "cmp", "ctl", "det", "elt", "gch", "mod", "rjt", "sbs"];
/// The highest number in each family.
const HIGHEST: [u32; 10] = [22, 9, 2, 1, 23, 2, 6, 1, 1, 5];

/// Test names that look like a clause but name none.
pub fn check(text: &str) -> Vec<(usize, String)> {
    let named = tests(text).into_iter();
    named.filter_map(|(line, name)| Some((line, format!("`{name}`: {}", fault(name)?)))).collect()
}

/// The tests of a Rust file: the line of each and its name.
pub fn tests(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut is_test = false;
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line == "#[test]" {
            is_test = true;
        } else if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) {
            if is_test {
                found.push((number + 1, name));
            }
            is_test = false;
        }
    }
    found
}

/// The clauses that a test's name begins with: `DET-05` and `DET-08` of `det_05_det_08_the_asking_thread_ends`.
pub fn clauses(name: &str) -> Vec<String> {
    let words: Vec<&str> = name.split('_').collect();
    let (pairs, _) = words.as_chunks::<2>();
    let is_number = |word: &str| word.len() == 2 && word.bytes().all(|byte| byte.is_ascii_digit());
    let ids = pairs.iter().take_while(|[family, number]| FAMILIES.contains(family) && is_number(number));
    ids.map(|[family, number]| id(family, number)).collect()
}

/// The prefixes of tests with clauses, up to the tens: `att_0`, `att_1`, `att_2`, …
pub fn beginnings() -> impl Iterator<Item = String> {
    let families = FAMILIES.iter().zip(HIGHEST);
    families.flat_map(|(family, highest)| (0..=highest / 10).map(move |tens| format!("{family}_{tens}")))
}

/// Every clause id.
#[cfg(test)]
pub fn all_clauses() -> impl Iterator<Item = String> {
    let families = FAMILIES.iter().zip(HIGHEST);
    families.flat_map(|(family, highest)| (1..=highest).map(move |number| id(family, &format!("{number:02}"))))
}

fn id(family: &str, number: &str) -> String {
    format!("{}-{number}", family.to_uppercase())
}

/// The error in the ids of a name, if any.
fn fault(name: &str) -> Option<String> {
    let mut words = name.split('_').peekable();
    while let Some(place) = words.peek().and_then(|word| FAMILIES.iter().position(|family| family == word)) {
        words.next();
        // `cat` and `att` are also words: a clause has two digits.
        let number = words.next_if(|word| word.starts_with(|first: char| first.is_ascii_digit()))?;
        let valid = number.len() == 2 && number.parse().is_ok_and(|number: u32| (1..=HIGHEST[place]).contains(&number));
        if !valid {
            return Some(format!("there is no clause {}", id(FAMILIES[place], number)));
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
    fn a_name_begins_with_its_clauses() {
        assert_eq!(clauses("det_05_det_08_the_asking_thread_ends"), ["DET-05", "DET-08"]);
        assert_eq!(clauses("att_02_det_is_a_word"), ["ATT-02"]);
        assert!(clauses("what_att_02_says").is_empty() && clauses("att_2_x").is_empty());
    }

    #[test]
    fn every_clause_begins_as_one_of_the_beginnings() {
        let beginnings: Vec<String> = beginnings().collect();
        for clause in all_clauses() {
            let name = format!("{}_x", clause.to_lowercase().replace('-', "_"));
            assert_eq!(beginnings.iter().filter(|beginning| name.starts_with(*beginning)).count(), 1, "{name}");
        }
    }

    #[test]
    fn only_tests_are_looked_at() {
        assert_eq!(check("fn att_99_x() {}\n").len(), 0);
        assert_eq!(check("#[test]\nfn att_99_x() {}\n").len(), 1);
    }
}
