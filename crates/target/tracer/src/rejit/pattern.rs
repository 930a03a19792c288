//! Patterns of method names.

/// Patterns that a session keeps.
const MOST_RULES: usize = 256;

/// Which methods to trace, also of modules that are loaded later: the last pattern that matches a name decides.
pub(crate) struct Rules(Vec<Rule>);

struct Rule {
    pattern: String,
    is_wanted: bool,
}

impl Rules {
    /// What matches one of these.
    pub(crate) fn of(patterns: &[String]) -> Rules {
        let rules = patterns.iter().take(MOST_RULES);
        Rules(rules.map(|pattern| Rule { pattern: pattern.clone(), is_wanted: true }).collect())
    }

    /// Adds a rule. Returns whether there was room for it.
    pub(crate) fn push(&mut self, pattern: &str, is_wanted: bool) -> bool {
        self.0.retain(|rule| rule.pattern != pattern);
        let has_room = self.0.len() < MOST_RULES;
        if has_room {
            self.0.push(Rule { pattern: pattern.to_owned(), is_wanted });
        }
        has_room
    }

    /// Whether to trace the method of this name.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.0.iter().rev().find(|rule| matches(&rule.pattern, name)).is_some_and(|rule| rule.is_wanted)
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any characters.
///
/// A pattern without `*` is the name of a method or of a type, and then stands for all its methods.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    if pattern.contains('*') {
        return glob(pattern.as_bytes(), name.as_bytes());
    }
    name == pattern
        || name.strip_prefix(pattern).and_then(|rest| rest.strip_prefix('.')).is_some_and(|method| {
            // The method's own name has no dot, except `.ctor` and `.cctor`.
            !method.strip_prefix('.').unwrap_or(method).contains('.')
        })
}

fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    // Where the last star is, and how much of the name it stands for so far.
    let mut star: Option<(usize, usize)> = None;
    while read < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == name[read] => (at, read) = (at + 1, read + 1),
            _ => match star {
                Some((place, covered)) => {
                    star = Some((place, covered + 1));
                    (at, read) = (place + 1, covered + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::{MOST_RULES, Rules, matches};

    #[test]
    fn the_last_rule_that_matches_decides_and_there_are_not_too_many() {
        let mut rules = Rules::of(&["Shop.*".into()]);
        let wanted = |rules: &Rules| ["Shop.Orders.Pay", "Shop.Cart.Add"].map(|name| rules.wants(name));
        assert_eq!(wanted(&rules), [true, true]);
        assert!(rules.push("Shop.Orders", false));
        assert_eq!(wanted(&rules), [false, true]);
        assert!(rules.push("*.Pay", true));
        assert_eq!(wanted(&rules), [true, true]);
        // The same again becomes the last one.
        assert!(rules.push("Shop.Orders", false));
        assert_eq!(wanted(&rules), [false, true]);
        let more = (0..MOST_RULES).filter(|number| rules.push(&number.to_string(), true)).count();
        assert_eq!(more, MOST_RULES - 3);
        assert!(!rules.push("one more", true));
        assert!(rules.push("Shop.Orders", true), "it is there already");
        assert_eq!(wanted(&rules), [true, true]);
    }

    #[test]
    fn a_star_stands_for_anything_and_a_type_for_its_methods() {
        for (pattern, name) in [
            ("Shop.Orders.*", "Shop.Orders.Pay"),
            ("*.Pay", "Shop.Orders.Pay"),
            ("*", "Shop.Orders.Pay"),
            ("Shop.*Pay*", "Shop.Orders.PayNow"),
            ("Shop.Orders", "Shop.Orders.Pay"),
            ("Shop.Orders", "Shop.Orders..ctor"),
            ("Shop.Orders.Pay", "Shop.Orders.Pay"),
            ("a*b*c", "aXbYbZc"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("Shop.Orders.*", "Shop.Order.Pay"),
            ("Shop", "Shop.Orders.Pay"),
            ("Shop.Orders.Pa", "Shop.Orders.Pay"),
            ("a*b*c", "aXbYbZ"),
            ("", "a.b"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }
}
