//! Parameters of a traced method, as a text each: the name, and what its type says about the numbers.
//!
//! `count` says nothing. `status<TAB>enum<TAB>0=Open<TAB>1=Paid` has two constants; with `flags` in the place of `enum`, a value is a set of
//! them. `price<TAB>Decimal` is a structure.

/// The name of a result among the parameters: no parameter can have it.
pub const RESULT_NAME: &str = "<result>";

/// A structure of the core library whose bytes are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Structure {
    /// `System.Decimal`.
    Decimal,
    /// `System.Guid`.
    Guid,
    /// `System.DateTime`.
    DateTime,
    /// `System.TimeSpan`.
    TimeSpan,
}

impl Structure {
    const ALL: [(&str, Structure); 4] = [
        ("Decimal", Structure::Decimal),
        ("Guid", Structure::Guid),
        ("DateTime", Structure::DateTime),
        ("TimeSpan", Structure::TimeSpan),
    ];

    /// By its name in the namespace `System`.
    pub fn named(name: &str) -> Option<Structure> {
        Structure::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, structure)| structure)
    }

    fn name(self) -> &'static str {
        Structure::ALL.into_iter().find(|(_, structure)| *structure == self).map_or("", |(name, _)| name)
    }

    /// Its size: 8 or 16.
    pub fn bytes(self) -> usize {
        match self {
            Structure::Decimal | Structure::Guid => 16,
            Structure::DateTime | Structure::TimeSpan => 8,
        }
    }
}

/// A parameter, or the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// The constants of its enum, by their bits; empty for other types.
    pub constants: Vec<(i64, String)>,
    /// Whether a value is a set of constants.
    pub is_flags: bool,
    /// The structure that its type is.
    pub structure: Option<Structure>,
}

impl Parameter {
    /// The texts of several, each on one line. Constants without room in so many bytes are left out.
    pub fn texts(all: &[Parameter], bytes: usize) -> Vec<String> {
        let mut texts: Vec<String> = all.iter().map(Parameter::beginning).collect();
        let mut left = bytes.saturating_sub(texts.iter().map(|text| text.len() + 1).sum());
        for (parameter, text) in all.iter().zip(&mut texts) {
            for (number, name) in &parameter.constants {
                let cell = format!("\t{number}={}", plain(name));
                let Some(rest) = left.checked_sub(cell.len()) else { break };
                left = rest;
                *text += &cell;
            }
        }
        texts
    }

    /// The text without constants.
    fn beginning(&self) -> String {
        let what = match self.structure {
            Some(structure) => structure.name(),
            None if self.constants.is_empty() => return plain(&self.name),
            None if self.is_flags => "flags",
            None => "enum",
        };
        plain(&self.name) + "\t" + what
    }

    /// Reads a text. What is not of this form is left out.
    pub fn of_text(text: &str) -> Parameter {
        let mut cells = text.split('\t');
        let name = cells.next().unwrap_or_default().to_owned();
        let what = cells.next().unwrap_or_default();
        let (is_flags, structure) = (what == "flags", Structure::named(what));
        let constant = |cell: &str| {
            let (number, name) = cell.split_once('=')?;
            Some((number.parse().ok()?, name.to_owned()))
        };
        Parameter { name, constants: cells.filter_map(constant).collect(), is_flags, structure }
    }

    /// The name of a value: that of a constant, or of several with `|` between them.
    pub fn name_of(&self, bits: i64) -> Option<String> {
        if let Some((_, name)) = self.constants.iter().find(|(number, _)| *number == bits) {
            return Some(name.clone());
        }
        if !self.is_flags {
            return None;
        }
        let (mut left, mut names) = (bits as u64, Vec::new());
        let mut constants: Vec<_> = self.constants.iter().filter(|(number, _)| *number != 0).collect();
        constants.sort_by_key(|(number, _)| std::cmp::Reverse(*number as u64));
        for (number, name) in constants {
            if left & *number as u64 == *number as u64 {
                left &= !(*number as u64);
                names.push(name.as_str());
            }
        }
        names.reverse();
        (left == 0 && !names.is_empty()).then(|| names.join("|"))
    }
}

/// A name without characters that end a cell or a line.
fn plain(name: &str) -> String {
    name.chars().map(|character| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Parameter {
        Parameter { name: name.to_owned(), ..Parameter::default() }
    }

    fn text_of(parameter: &Parameter) -> String {
        Parameter::texts(std::slice::from_ref(parameter), 1000).remove(0)
    }

    fn mood(is_flags: bool) -> Parameter {
        let constants = [(0, "None"), (1, "Calm"), (2, "Angry"), (3, "Both"), (4, "Tired")];
        let constants = constants.map(|(number, name)| (number, name.to_owned())).to_vec();
        Parameter { name: "mood".to_owned(), constants, is_flags, structure: None }
    }

    #[test]
    fn a_text_is_read_as_it_was_written_and_stays_on_one_line() {
        let price = Parameter { structure: Some(Structure::Decimal), ..named("price") };
        for parameter in [mood(false), mood(true), named("count"), named(""), price] {
            assert_eq!(Parameter::of_text(&text_of(&parameter)), parameter);
        }
        let hostile = Parameter { name: "a\tenum\n".to_owned(), ..mood(false) };
        assert_eq!(Parameter::of_text(&text_of(&hostile)).constants, hostile.constants);
        assert_eq!(text_of(&hostile).lines().count(), 1);
        let texts = Parameter::texts(&[mood(false), named("count"), mood(true)], 40);
        assert_eq!(texts, ["mood\tenum\t0=None", "count", "mood\tflags"]);
        for text in ["mood\tenum\t1", "mood\tflags\tx=y", "mood\tother\t="] {
            assert_eq!(Parameter::of_text(text).constants, []);
        }
    }

    #[test]
    fn a_value_has_the_name_of_its_constant_and_a_set_those_of_all() {
        let names =
            |parameter: Parameter, bits: &[i64]| bits.iter().map(|bits| parameter.name_of(*bits)).collect::<Vec<_>>();
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(names(mood(false), &[0, 2, 5, -1]), [some("None"), some("Angry"), None, None]);
        assert_eq!(
            names(mood(true), &[0, 3, 5, 7, 8, 12]),
            [some("None"), some("Both"), some("Calm|Tired"), some("Both|Tired"), None, None]
        );
    }
}
