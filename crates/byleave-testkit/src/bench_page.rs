//! docs/performance.md: each benchmark writes its own part, between its marks, with the date and the machine.

use std::path::Path;

/// Writes the table of a benchmark of this crate.
#[macro_export]
macro_rules! write_bench_page {
    ($part:expr, $table:expr) => {
        $crate::bench_page::write(env!("CARGO_PKG_NAME"), $part, $table)
    };
}

/// Puts a table between the marks of a part.
pub fn write(package: &str, part: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/performance.md");
    let said = |program: &str, words: &[&str]| {
        let output = std::process::Command::new(program).args(words).output();
        output
            .ok()
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
            .unwrap_or_default()
    };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let machine = format!("{} × {}", said("nproc", &[]), model.trim_start_matches([' ', '\t', ':']));
    let head = format!(
        "Written by `cargo bench -p {} --bench {part}` on {}, {machine}, {}.\n\n",
        package,
        said("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
        said("rustc", &["--version"]),
    );
    let (open, close) = (format!("<!-- {part} -->"), format!("<!-- /{part} -->"));
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let (before, rest) = page.split_once(&open).unwrap();
    let (_, after) = rest.split_once(&close).unwrap();
    std::fs::write(&path, format!("{before}{open}\n{head}{table}{close}{after}")).unwrap();
    println!("written to {}", path.display());
}
