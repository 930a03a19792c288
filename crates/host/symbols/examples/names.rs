//! Prints the name, and where a PDB is found the place, of every method of the modules given: a quick look at real files.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, reason = "an example prints, and may stop")]

use remora_symbols::ManagedImage;

fn main() {
    for path in std::env::args().skip(1) {
        match ManagedImage::parse(std::fs::read(&path).unwrap()) {
            Ok(image) => print_all(&path, image),
            Err(error) => eprintln!("{path}: {error}"),
        }
    }
}

fn print_all(path: &str, mut image: ManagedImage) {
    if image.use_embedded_pdb() == Ok(false) {
        let beside = image.pdb_paths(&path.into()).iter().find_map(|path| std::fs::read(path.to_string()).ok());
        if let Some(Err(error)) = beside.map(|bytes| image.use_pdb(bytes)) {
            eprintln!("{path}: {error}");
        }
    }
    println!("{} {:?}", path, image.mvid());
    for token in image.method_tokens() {
        let name = image.method_name(token, &[], &[]).unwrap();
        match image.pdb().and_then(|pdb| pdb.first_line(token)) {
            Some((document, line)) => println!("{token:08x} {name}  {document}:{line}"),
            None => println!("{token:08x} {name}"),
        }
    }
}
