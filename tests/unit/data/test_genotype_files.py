"""VCF, .pgen and .raw files: the same genotypes as the .bed file, to the bit, and errors that name what is wrong."""

import gzip
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed
from pgenlib import PgenWriter

import whichvars as wv

RNG = np.random.default_rng(3)
N, P = 41, 300
COUNTS = RNG.integers(0, 3, size=(N, P)).astype(np.int8)
COUNTS[RNG.random((N, P)) < 0.1] = -127
IID = [f"p{i:02d}" for i in range(N)]
NAMES = [f"rs{j}" for j in range(P)]
NAMES[4] = "."
NAMES[9] = NAMES[8]
POSITIONS = list(range(100, 100 + P))
HEADER = ["##fileformat=VCFv4.2", "##source=tests"]
COLUMNS = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
Read = Callable[..., wv.Genotypes]
READERS: dict[str, Read] = {
    "small.vcf": wv.read_vcf, "small.vcf.gz": wv.read_vcf, "small.pgen": wv.read_pgen,
}  # fmt: skip


def written(count: int, j: int) -> str:
    """A genotype, phased or not, with other fields or without."""
    text = {0: ("0/0", "0|0"), 1: ("0/1", "1|0"), 2: ("1/1", "1|1"), -127: ("./.", ".")}[int(count)][j % 2]
    return text if j % 3 else f"{text}:{j}:0.5"


def vcf_lines() -> list[str]:
    lines = [*HEADER, "\t".join([*COLUMNS, *IID])]
    for j in range(P):
        cells = [written(count, j) for count in COUNTS[:, j]]
        lines.append(
            "\t".join(["6", str(POSITIONS[j]), NAMES[j], "G", "A", ".", ".", ".", "GT:DP:DS", *cells])
        )
    return lines


def write_pgen(path: Path, alleles: list[str] | None = None) -> None:
    with PgenWriter(bytes(path), N, variant_ct=P, nonref_flags=False, allele_ct_limit=3) as writer:
        for j in range(P):
            counts = np.where(COUNTS[:, j] == -127, -9, COUNTS[:, j])
            if alleles is None or alleles[j] == "A":
                writer.append_biallelic(counts.astype(np.int8))
            else:
                pairs = np.stack([np.where(counts == 2, 2, 0), np.where(counts == 0, 1, 2)], axis=1)
                writer.append_alleles(pairs.astype(np.int32).ravel())
    rows = [
        f"6\t{POSITIONS[j]}\t{NAMES[j]}\tG\t{'A' if alleles is None else alleles[j]}\t." for j in range(P)
    ]
    path.with_suffix(".pvar").write_text(
        "\n".join([*HEADER, "#CHROM\tPOS\tID\tREF\tALT\tQUAL", *rows]) + "\n"
    )
    path.with_suffix(".psam").write_text("\n".join(["#IID\tSEX", *(f"{name}\tNA" for name in IID)]) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    text = "\n".join(vcf_lines()) + "\n"
    (tmp_path / "small.vcf").write_text(text)
    half = len(text) // 2
    # bgzip writes many members one after the other
    (tmp_path / "small.vcf.gz").write_bytes(
        gzip.compress(text[:half].encode()) + gzip.compress(text[half:].encode())
    )
    write_pgen(tmp_path / "small.pgen")
    properties = {
        "iid": IID, "sid": NAMES, "chromosome": ["6"] * P, "bp_position": POSITIONS, "allele_1": ["A"] * P, "allele_2": ["G"] * P,
    }  # fmt: skip
    to_bed(tmp_path / "small.bed", COUNTS, properties=properties)
    return tmp_path


@pytest.mark.parametrize("file", READERS)
def test_genotypes_are_those_of_the_bed_file(folder: Path, file: str) -> None:
    bed, ours = wv.read_bed(folder / "small.bed"), READERS[file](folder / file)
    assert ours.values.dtype == np.int8
    assert ours.values.flags.f_contiguous
    np.testing.assert_array_equal(ours.values, bed.values)
    np.testing.assert_array_equal(ours.values, COUNTS)
    assert (ours.names, ours.samples) == (bed.names, bed.samples)
    assert ours.names[4] == "6:104:A:G"
    pd.testing.assert_frame_equal(ours.variants, bed.variants)
    pd.testing.assert_frame_equal(ours.frequencies(), bed.frequencies())


@pytest.mark.parametrize("file", READERS)
def test_rows_and_variants_are_selected_as_of_the_bed_file(folder: Path, file: str) -> None:
    for rows, variants in (
        ([5, 2, 40], ["rs7", "rs3", "rs299"]),
        (np.arange(N) % 2 == 0, np.arange(P) % 7 == 1),
        (None, [0, 299, 17]),
    ):
        bed = wv.read_bed(folder / "small.bed", rows=rows, variants=variants)
        ours = READERS[file](folder / file, rows=rows, variants=variants)
        np.testing.assert_array_equal(ours.values, bed.values)
        assert (ours.names, ours.samples) == (bed.names, bed.samples)
        pd.testing.assert_frame_equal(ours.variants, bed.variants)
    with pytest.raises(wv.DataError, match="no people are left"):
        READERS[file](folder / file, rows=[])
    with pytest.raises(wv.DataError, match="'rs1000'"):
        READERS[file](folder / file, variants=["rs1000"])


@pytest.mark.parametrize("file", READERS)
def test_a_problem_takes_the_path(folder: Path, file: str) -> None:
    y = RNG.normal(size=N)
    bed, ours = (wv.Problem(str(folder / name), y) for name in ("small.bed", file))
    assert ours.names == bed.names
    for model in ([], ["rs5"], ["rs5", "rs77"]):
        assert ours.log_marginal(model) == bed.log_marginal(model)


# --- what is left out


def test_variants_with_several_alleles_are_left_out_and_counted(folder: Path) -> None:
    kept = np.arange(P) % 100 != 3
    lines = vcf_lines()
    for j in np.flatnonzero(~kept):
        lines[3 + j] = lines[3 + j].replace("\tG\tA\t", "\tG\tA,T\t").replace("1/1", "1/2")
    (folder / "small.vcf").write_text("\n".join(lines))
    write_pgen(folder / "small.pgen", ["A" if keep else "A,T" for keep in kept])
    for file in ("small.vcf", "small.pgen"):
        with pytest.warns(wv.DataWarning, match=r"left out 3 of 300 variants of small\.\w+, which have more than two alleles, such as that at 6:103"):  # fmt: skip
            ours = READERS[file](folder / file)
        np.testing.assert_array_equal(ours.values, COUNTS[:, kept])
        assert len(ours.names) == P - 3


def test_variants_of_another_ploidy_are_left_out_and_counted(folder: Path) -> None:
    lines = vcf_lines()
    for j, text in ((10, "1"), (20, "0/1/1")):
        fields = lines[3 + j].split("\t")
        lines[3 + j] = "\t".join([*fields[:20], text, *fields[21:]])
    (folder / "small.vcf").write_text("\n".join(lines))
    with pytest.warns(wv.DataWarning, match=r"left out 2 of 300 variants of small.vcf, of which some people have another number .* such as rs10"):  # fmt: skip
        ours = wv.read_vcf(folder / "small.vcf")
    np.testing.assert_array_equal(ours.values, np.delete(COUNTS, [10, 20], axis=1))
    assert "rs10" not in ours.names
    with pytest.raises(wv.DataError, match="no variant has two alleles of everybody"):
        wv.read_vcf(folder / "small.vcf", variants=["rs10"])


def test_genotypes_that_are_known_in_part_are_missing(tmp_path: Path) -> None:
    cells = ["0/.", ".|1", "./.", ".", "1|0"]
    line = "\t".join(["X", "7", "rs1", "G", "A", ".", ".", ".", "DP:GT", *(f"3:{cell}" for cell in cells)])
    header = "\t".join([*COLUMNS, *"abcde"])
    (tmp_path / "one.vcf").write_text("\n".join([*HEADER, header, line, line.replace("3:1|0", "3")]))
    assert wv.read_vcf(tmp_path / "one.vcf").values.T.tolist() == [[-127] * 4 + [1], [-127] * 5]


# --- dosages


DOSAGES = RNG.integers(0, 2001, size=(N, P)) / 1000
DOSAGES[RNG.random((N, P)) < 0.05] = np.nan


def with_dosages(folder: Path) -> None:
    lines = vcf_lines()
    for j in range(P):
        head = lines[3 + j].split("\t")[:8]
        cells = ["0/1:." if np.isnan(d) else f"0/1:{d}" for d in DOSAGES[:, j]]
        # fields at the end may be left out, and GT need not be there
        cells = [cell.removesuffix(":.") for cell in cells] if j % 2 else [cell[4:] for cell in cells]
        lines[3 + j] = "\t".join([*head, "GT:DS" if j % 2 else "DS", *cells])
    (folder / "small.vcf").write_text("\n".join(lines))
    with PgenWriter(bytes(folder / "small.pgen"), N, variant_ct=P, nonref_flags=False, dosage_present=True) as writer:  # fmt: skip
        for j in range(P):
            writer.append_dosages(np.nan_to_num(DOSAGES[:, j], nan=-9.0))


def test_dosages(folder: Path) -> None:
    with_dosages(folder)
    ours = wv.read_vcf(folder / "small.vcf", dosages=True)
    np.testing.assert_array_equal(ours.values, DOSAGES.astype(np.float32))
    assert ours.values.dtype == np.float32
    some = wv.read_vcf(folder / "small.vcf", rows=[3, 1], variants=["rs7", "rs6"], dosages=True)
    np.testing.assert_array_equal(some.values, DOSAGES[[3, 1]][:, [6, 7]].astype(np.float32))
    # .pgen files have steps of 1/16384
    pgen = wv.read_pgen(folder / "small.pgen", dosages=True)
    np.testing.assert_allclose(pgen.values, DOSAGES, atol=0.5001 / 16384)
    known = ours.frequencies()
    assert known["frequency"].to_numpy() == pytest.approx(np.nanmean(DOSAGES, axis=0) / 2, abs=1e-7)
    assert known["missing"].to_numpy() == pytest.approx(np.isnan(DOSAGES).mean(axis=0))
    assert ours[[0, 1]].take(["rs7"]).values.tolist() == ours.values[:2, [7]].tolist()


@pytest.mark.parametrize("engine", ["gram", "columns"])
def test_a_problem_of_dosages_is_that_of_the_numbers(folder: Path, engine: str) -> None:
    with_dosages(folder)
    y = np.nan_to_num(DOSAGES[:, 7]) + RNG.normal(size=N)
    G = wv.read_vcf(folder / "small.vcf", variants=["rs5", "rs6", "rs7"], dosages=True)
    with pytest.warns(wv.DataWarning, match=r"genotypes are missing \(.*each is replaced by the mean of its column"):  # fmt: skip
        ours = wv.Problem(G, y, engine=engine, slab=wv.IndependentNormal())
    numbers = DOSAGES[:, [5, 6, 7]].astype(np.float32).astype(float)
    numbers = np.where(np.isnan(numbers), np.nanmean(numbers, axis=0), numbers)
    alone = wv.Problem(pd.DataFrame(numbers, columns=["rs5", "rs6", "rs7"]), y)
    for model in ([], ["rs7"], ["rs5", "rs7"]):
        assert ours.log_marginal(model) == pytest.approx(alone.log_marginal(model), abs=1e-6)
    first, second = (wv.exact(problem) for problem in (ours, alone))
    assert first.pip == pytest.approx(second.pip, abs=1e-6)
    # missing dosages of new people are replaced by the means of those that were fitted
    assert first.predict(G[:9]) == pytest.approx(second.predict(numbers[:9]), abs=1e-5)
    broken = G.values.copy()
    broken[4, 1] = np.inf
    with pytest.raises(wv.DataError, match="X column 'rs6' is infinite in row 4"):
        wv.Problem(wv.Genotypes(broken, G.names), y)


def test_dosages_of_people_with_one_allele_are_left_out(folder: Path) -> None:
    with_dosages(folder)
    lines = (folder / "small.vcf").read_text().splitlines()
    lines[3 + 7] = lines[3 + 7].replace("0/1", "1", 1)
    (folder / "small.vcf").write_text("\n".join(lines))
    with pytest.warns(wv.DataWarning, match="left out 1 of 300 variants"):
        assert "rs7" not in wv.read_vcf(folder / "small.vcf", dosages=True).names
    lines[3 + 8] = lines[3 + 8].replace("\tDS\t", "\tDS\t2.5\t", 1).rsplit("\t", 1)[0]
    (folder / "small.vcf").write_text("\n".join(lines))
    with pytest.raises(wv.DataError, match=r"line 12: the dosage of p00 is '2.5', not a number from 0 to 2"):
        wv.read_vcf(folder / "small.vcf", dosages=True)
    with pytest.raises(wv.DataError, match="line 4 has no genotypes: its format is DS, without GT"):
        wv.read_vcf(folder / "small.vcf")


# --- what is refused


def with_line(lines: list[str], number: int, change: Callable[[str], str]) -> str:
    """The file with one line changed, counted from 1."""
    return "\n".join([*lines[: number - 1], change(lines[number - 1]), *lines[number:]])


@pytest.mark.parametrize(
    ("number", "change", "message"),
    [
        (8, lambda line: line[: len(line) // 2], r"line 8 has \d+ fields, not 50; is the file cut short"),
        (8, lambda line: "6\t104", r"line 8 has 2 fields"),
        (8, lambda line: line.replace("GT:DP:DS", "DP:DS"), "line 8 has no genotypes: its format is DP:DS, without GT"),
        (9, lambda line: line.replace("0/0", "0/7").replace("0|0", "0/7"), r"line 9: the genotype of p\d\d is '0/7'"),
        (9, lambda line: line.replace("6\t105", "6\tx"), "the position in line 9 is 'x'"),
        (3, lambda line: line.replace("FORMAT", "FORM"), "line 3 should have the names of columns"),
        (3, lambda line: line.replace("p03", "p02"), "two people are called p02 in line 3"),
        (3, lambda line: "\t".join(COLUMNS), "there are no people in line 3"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_vcf_file_is_named(
    tmp_path: Path, number: int, change: Callable[[str], str], message: str
) -> None:
    path = tmp_path / "wrong.vcf"
    path.write_text(with_line(vcf_lines(), number, change))
    with pytest.raises(wv.DataError, match=message):
        wv.read_vcf(path)


def test_files_that_are_cut_short_or_missing_are_refused(folder: Path) -> None:
    whole = (folder / "small.vcf.gz").read_bytes()
    (folder / "small.vcf.gz").write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(wv.DataError, match=r"cannot be read beyond line \d+: .*damaged or cut short"):
        wv.read_vcf(folder / "small.vcf.gz")
    with pytest.raises(wv.DataError, match=r"there is no file .*none\.vcf"):
        wv.read_vcf(folder / "none.vcf")
    pgen = folder / "small.pgen"
    psam = pgen.with_suffix(".psam").read_text()
    pgen.with_suffix(".psam").write_text(psam + "p99\tNA\n")
    with pytest.raises(wv.DataError, match=r"does not belong to its .pvar file of 300 variants and its .psam file of 42 people"):  # fmt: skip
        wv.read_pgen(pgen)
    pgen.with_suffix(".psam").write_text(psam.replace("#IID", "name"))
    with pytest.raises(wv.DataError, match="names that begin with #FID or #IID"):
        wv.read_pgen(pgen)
    pgen.with_suffix(".psam").write_text(psam)
    pgen.with_suffix(".pvar").rename(folder / "small.pvar.zst")
    with pytest.raises(wv.DataError, match=r"there is no file .*small\.pvar; unpack small\.pvar\.zst with zstd -d"):  # fmt: skip
        wv.read_pgen(pgen)


# --- .bed


def test_people_of_several_families_with_the_same_names_can_be_told_apart(tmp_path: Path) -> None:
    bed, counts = tmp_path / "small.bed", np.random.default_rng(1).integers(0, 3, size=(6, 5)).astype(np.int8)
    families, people = ["f", "f", "g", "g", "h", "h"], ["1", "2"] * 3
    to_bed(bed, counts, properties={"fid": families, "iid": people})
    head = "FID IID PAT MAT SEX PHENOTYPE a_A b_A c_A d_A e_A"
    lines = [
        f"{f} {i} 0 0 1 -9 {' '.join(map(str, row))}" for f, i, row in zip(families, people, counts.tolist())
    ]
    (tmp_path / "small.raw").write_text("\n".join([head, *lines]))
    with PgenWriter(bytes(tmp_path / "small.pgen"), 6, variant_ct=5, nonref_flags=False) as writer:
        writer.append_biallelic_batch(np.ascontiguousarray(counts.T))
    variants = [f"1\t{j}\tv{j}\tG\tA\n" for j in range(5)]
    (tmp_path / "small.pvar").write_text("#CHROM\tPOS\tID\tREF\tALT\n" + "".join(variants))
    (tmp_path / "small.psam").write_text(
        "#FID\tIID\n" + "".join(f"{f}\t{i}\n" for f, i in zip(families, people))
    )
    for file in ("small.bed", "small.raw", "small.pgen"):
        read = {".bed": wv.read_bed, ".raw": wv.read_raw, ".pgen": wv.read_pgen}[Path(file).suffix]
        G = read(tmp_path / file, rows=[0, 1, 3])
        assert G.index.tolist() == ["f_1", "f_2", "g_2"]
        y = pd.Series([1.0, 2.0, 4.0], ["1", "2", "2"])
        with pytest.raises(wv.DataError, match="no row label in common"):
            wv.Problem(G, y, slab=wv.IndependentNormal(0.01))


@pytest.mark.parametrize("left_out", [1, 2, 3])
def test_lines_that_are_missing_in_a_fam_file_are_noticed_even_if_the_size_fits(
    tmp_path: Path, left_out: int
) -> None:
    """Genotypes of four people are one byte, so that 37 to 40 people take the same room."""
    bed, counts = (
        tmp_path / "small.bed",
        np.random.default_rng(1).integers(0, 3, size=(40, 30)).astype(np.int8),
    )
    to_bed(bed, counts)
    assert wv.read_bed(bed).values.tolist() == counts.tolist()
    to_bed(tmp_path / "fewer.bed", counts[left_out:])
    assert wv.read_bed(tmp_path / "fewer.bed").values.tolist() == counts[left_out:].tolist()
    fam = bed.with_suffix(".fam")
    lines = fam.read_text().splitlines()
    fam.write_text("\n".join([lines[0], *lines[1 + left_out :]]) + "\n")
    with pytest.raises(
        wv.DataError, match=rf"genotypes of more people than the {40 - left_out} of small\.fam"
    ):
        wv.read_bed(bed)


# --- .raw


def raw_lines(names: list[str] | None = None) -> list[str]:
    head = ["FID", "IID", "PAT", "MAT", "SEX", "PHENOTYPE"]
    names = [f"snp_{j}_A" for j in range(P)] if names is None else names
    cells = np.where(COUNTS == -127, "NA", COUNTS.astype(str))
    return [
        " ".join([*head, *names]),
        *(" ".join(["fam", IID[i], "0", "0", "1", f"{i / 10}", *cells[i]]) for i in range(N)),
    ]


@pytest.mark.parametrize("mark", [" ", "\t"])
def test_a_raw_file_has_the_genotypes_and_alleles(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "small.raw"
    path.write_text("\n".join(raw_lines()).replace(" ", mark) + "\n")
    ours = wv.read_raw(path)
    assert ours.values.dtype == np.int8
    np.testing.assert_array_equal(ours.values, COUNTS)
    assert (ours.names[:2], ours.samples) == (["snp_0", "snp_1"], IID)
    assert ours.variants.iloc[0].to_dict() == {"allele1": "A", "allele2": ""}
    some = wv.read_raw(path, rows=[5, 2], variants=["snp_7", "snp_3"], dosages=True)
    assert some.names == ["snp_3", "snp_7"]
    assert some.values.dtype == np.float32
    want = np.where(COUNTS == -127, np.nan, COUNTS)[[5, 2]][:, [3, 7]]
    np.testing.assert_array_equal(some.values, want.astype(np.float32))
    y = np.sin(np.arange(N))
    with warnings.catch_warnings(action="ignore", category=wv.DataWarning):
        problems = [wv.Problem(X, y).log_marginal(["snp_3"]) for X in (path, ours)]
    assert problems[0] == problems[1]


def test_a_raw_file_with_dosages_both_alleles_and_heterozygous_people(tmp_path: Path) -> None:
    path = tmp_path / "small.raw"
    path.write_text(
        "FID IID PAT MAT SEX PHENOTYPE rs1_A(/G) rs1_HET rs1_T odd\nf a 0 0 1 1 0.25 0 1 2\n\nf b 0 0 2 -9 NA 1 0 1.5\n"
    )
    with pytest.warns(wv.DataWarning, match=r"left out 1 columns of small\.raw .* such as rs1_HET"):
        ours = wv.read_raw(path)
    np.testing.assert_array_equal(ours.values, np.array([[0.25, 1, 2], [np.nan, 0, 1.5]], np.float32))
    assert ours.names == ["rs1_A(/G)", "rs1_T", "odd"]
    assert ours.variants["allele1"].tolist() == ["A", "T", ""]
    assert ours.variants["allele2"].tolist() == ["G", "", ""]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("FID IID", "IID FID", "must begin with FID IID PAT MAT SEX PHENOTYPE"),
        ("snp_7_A ", "", "line 2 has 306 fields, not 305"),
        ("snp_7_A ", "snp_8_A ", "two variants are called 'snp_8_A'"),
        ("fam p00 0 0 1 0.0 ", "fam p00 0 0 1 0.0 3 ", "line 2 has 307 fields"),
        ("p01 0 0 1 0.1 ", "p01 0 0 1 0.1 x", "the genotype of p01 at 'snp_0' in line 3 is x"),
        ("p01 0 0 1 0.1 ", "p01 0 0 1 0.1 7", "the genotype of p01 at 'snp_0' in line 3 is 7"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_raw_file_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = "\n".join(raw_lines())
    assert old in text
    (tmp_path / "small.raw").write_text(text.replace(old, new))
    with pytest.raises(wv.DataError, match=message):
        wv.read_raw(tmp_path / "small.raw")
