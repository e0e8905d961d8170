"""`whichvars fit cohort.bed`: phenotypes and covariates joined by id, selections of people and variants, and their counts."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bed_reader import to_bed
from click.testing import CliRunner, Result
from pgenlib import PgenWriter

import whichvars as wv
from whichvars.cli import main
from whichvars.cli.genotypes import GENETIC
from whichvars.cli.options import parse_slab
from whichvars.problem.genetics import default_slab, wide_enough

Call = Callable[..., Result]
N, P = 60, 6
RNG = np.random.default_rng(5)
COUNTS = RNG.integers(0, 3, size=(N, P)).astype(np.int8)
COUNTS[:, 5] = 0
COUNTS[:2, 5] = 1  # a frequency of 1/60
COUNTS[:9, 4] = -127  # 15 % missing
COUNTS[50, :4] = -127
FID, IID = [f"f{i // 2}" for i in range(N)], [f"{i:03d}" for i in range(N)]
AGE = RNG.normal(50, 9, N).round(1)
SITE = np.array(["east", "west"])[RNG.integers(0, 2, N)]
HEIGHT = 3.0 * np.maximum(COUNTS[:, 1], 0) + 0.1 * AGE + 2.0 * (SITE == "west") + RNG.normal(size=N)


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        wv.Posterior, "report", lambda self, path, *_, **__: path.write_text("report"), raising=False
    )
    to_bed(
        "cohort.bed", COUNTS,
        properties={
            "fid": FID, "iid": IID, "sid": [f"rs{j}" for j in range(P)], "chromosome": ["6"] * 4 + ["7"] * 2,
            "bp_position": [10, 20, 30, 40, 10, 20], "allele_1": ["A"] * P, "allele_2": ["-", *["G"] * (P - 1)],
            "pheno": [str(v) for v in HEIGHT[:-1]] + ["-9"],
        },
    )  # fmt: skip
    # in another order, one person less, one that nobody knows, one without a height, one coded -9
    order = RNG.permutation(N - 1)
    heights = HEIGHT.copy().astype(object)
    heights[3], heights[4] = "NA", "-9"
    lines = [f"{FID[i]}  {IID[i]} {heights[i]}" for i in order]
    Path("heights.txt").write_text("#FID IID height\n" + "\n".join([*lines, "f99 999 1.5"]) + "\n")
    pd.DataFrame({"IID": IID, "age": AGE, "site": SITE}).iloc[::-1].to_csv("people.csv", index=False)

    def run(*arguments: object, code: int | None = None) -> Result:
        result = CliRunner().invoke(main, [str(a) for a in arguments])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in ((0, 3) if code is None else (code,)), result.output
        return result

    return run


def expected(rows: np.ndarray, columns: list[int], **keywords: Any) -> pd.Series:
    """From arrays that are put together by hand."""
    covariates = np.column_stack([AGE, SITE == "west"])[rows]
    X = wv.Genotypes(COUNTS[np.ix_(rows, columns)], names=[f"rs{j}" for j in columns])
    problem = wv.Problem(
        X,
        HEIGHT[rows],
        covariates=covariates,
        slab=wv.IndependentNormal(0.01),
        model_prior=wv.BetaBinomial(size=1.0),
        **keywords,
    )
    return wv.exact(wide_enough(problem)).inclusion_probabilities


@pytest.mark.filterwarnings("ignore:.*genotypes:whichvars.DataWarning")
def test_a_bed_file_with_phenotypes_and_covariates(call: Call) -> None:
    result = call(
        "fit", "cohort.bed", "-y", "height", "--phenotypes", "heights.txt", "--covariates", "people.csv"
    )
    said = " ".join(result.stderr.split())
    for sentence in (
        "1 of 60 people are not in heights.txt and are left out: f29 059.",
        "1 of 60 rows of heights.txt match none of the people and are not used.",
        "The response is -9, which is PLINK's code for a missing phenotype, of 1 person.",
        "2 people have no value of height and are left out.",
        "3 of 60 rows of people.csv match none of the people",
        "Covariates of people.csv, in every model: age, site=west.",
        "57 of 60 people and 6 of 6 variants are used.",
    ):
        assert sentence in said, sentence
    rows = np.setdiff1d(np.arange(N - 1), [3, 4])
    summary = pd.read_csv("cohort-run/summary.csv", dtype={"chromosome": str}).set_index("variable")
    want = expected(rows, list(range(P)))
    assert summary["pip"][want.index].to_numpy() == pytest.approx(want.to_numpy(), abs=1e-9)
    assert summary.loc["rs1", ["chromosome", "position", "allele1", "allele2"]].tolist() == [
        "6",
        20,
        "A",
        "G",
    ]
    sets = pd.read_csv("cohort-run/credible_sets.csv")
    first = sets.iloc[0]
    assert first[["set", "variable", "chromosome", "position", "allele1", "allele2"]].tolist() == [
        1,
        "rs1",
        6,
        20,
        "A",
        "G",
    ]
    assert first["pip"] == pytest.approx(want["rs1"], abs=1e-9)
    assert first["mean"] > 0
    settings = json.loads(Path("cohort-run/settings.json").read_text())
    # wider than g = 0.01, as the effect is large
    assert settings["problem"]["slab"] == "IndependentNormal(g=3.4)"
    assert settings["problem"]["always_included"] == ["age", "site=west"]
    posterior = wv.Posterior.load("cohort-run/posterior.npz")
    assert posterior.problem.record.file == "cohort.bed and heights.txt"
    methods = posterior.methods()
    assert (
        "All models contain an intercept, age and site=west, with flat priors on their coefficients."
        in methods
    )
    assert "The data were read from cohort.bed and heights.txt." in methods


def test_level_and_signal_choose_the_credible_sets_of_the_file_and_the_report(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(wv.Posterior, "report", lambda self, path, *_, **kind: asked.append(kind))
    options = ("-y", "height", "--phenotypes", "heights.txt", "--level", 0.9, "--signal", 0.3)
    call("fit", "cohort.bed", *options)
    call("report", "cohort-run")
    assert asked == [{"level": 0.9, "signal": 0.3}] * 2
    posterior = wv.Posterior.load("cohort-run/posterior.npz")
    want = posterior.credible_sets(0.9, signal=0.3, long=True)
    found = pd.read_csv("cohort-run/credible_sets.csv")
    assert found["variable"].tolist() == want["variable"].tolist()
    assert found["signal"].to_numpy() == pytest.approx(want["signal"].to_numpy())
    assert found["reached"].tolist() == want["reached"].tolist()
    assert len(want)


def test_the_slab_that_help_names_is_the_one_that_is_used() -> None:
    assert parse_slab(GENETIC) == default_slab()


@pytest.mark.filterwarnings("ignore:.*genotypes:whichvars.DataWarning")
def test_selections_are_counted_and_made(call: Call) -> None:
    # the person f1 001 is known as f0 001
    Path("keep.txt").write_text("".join(f"{FID[i]} {IID[i]}\n" for i in range(55)) + "f1 001\n")
    Path("remove.txt").write_text("IID\n001\n")
    Path("exclude.txt").write_text("rs0\nrs71\nrs72\nrs73\nrs74\nrs71\n")
    result = call(
        "fit", "cohort.bed", "-y", "phenotype", "--covariates", "people.csv", "--keep", "keep.txt", "--remove", "remove.txt",
        "--exclude", "exclude.txt", "--mind", "0.5", "--geno", "0.1", "--maf", "0.05",
    )  # fmt: skip
    said = " ".join(result.stderr.split())
    for sentence in (
        "--keep leaves out 5 of 60 people.",
        "1 name in the file of --keep is not among the people of the data: f1 001.",
        "--remove leaves out 1 of 55 people.",
        "--exclude leaves out 1 of 6 variants.",
        "4 names in the file of --exclude are not among the variants of the data: rs71, rs72, rs73, ….",
        "--mind leaves out 1 of 54 people.",
        "--geno leaves out 1 of 5 variants.",
        "--maf leaves out 1 of 4 variants.",
        "53 of 60 people and 3 of 6 variants are used.",
    ):
        assert sentence in said, sentence
    assert "in the file of --remove" not in said
    rows = np.setdiff1d(np.arange(55), [1, 50])
    summary = pd.read_csv("cohort-run/summary.csv").set_index("variable")
    want = expected(rows, [1, 2, 3])
    assert summary["pip"][want.index].to_numpy() == pytest.approx(want.to_numpy(), abs=1e-9)


@pytest.mark.filterwarnings("ignore:.*genotypes:whichvars.DataWarning")
def test_regions(call: Call) -> None:
    call("fit", "cohort.bed", "-y", "phenotype", "--region", "6:15-35")
    assert set(pd.read_csv("cohort-run/summary.csv")["variable"]) == {"rs1", "rs2"}
    call("fit", "cohort.bed", "-y", "phenotype", "--region", "chr6:15-35", "--out", "with-prefix")
    assert set(pd.read_csv("with-prefix/summary.csv")["variable"]) == {"rs1", "rs2"}
    message = call("fit", "cohort.bed", "-y", "phenotype", "--region", "8", "--out", "other", code=2).output
    assert "no variant on chromosome '8'; the file has 6, 7" in " ".join(message.split())
    assert not Path("other").exists()


@pytest.mark.filterwarnings("ignore:.*genotypes:whichvars.DataWarning")
def test_predictions_join_covariates_and_turn_alleles_round(call: Call) -> None:
    call("fit", "cohort.bed", "-y", "phenotype", "--covariates", "people.csv")
    same = call("predict", "cohort-run", "cohort.bed", "--covariates", "people.csv").stdout
    turned = COUNTS.copy()
    turned[:, 1] = np.where(COUNTS[:, 1] == -127, -127, 2 - COUNTS[:, 1])
    alleles = {"allele_1": ["A", "G", *["A"] * 4], "allele_2": ["-", "A", *["G"] * 4]}
    to_bed(
        "new.bed", turned, properties={"fid": FID, "iid": IID, "sid": [f"rs{j}" for j in range(P)], **alleles}
    )
    other = call("predict", "cohort-run", "new.bed", "--covariates", "people.csv")
    assert "1 variant of new.bed counts the other allele" in other.stderr
    assert other.stdout == same
    means = pd.read_csv(io.StringIO(same))["mean"].to_numpy()
    assert np.corrcoef(means[:-1], HEIGHT[:-1])[0, 1] > 0.6
    message = call("predict", "cohort-run", "cohort.bed", code=2).output
    assert "made with covariates (age, site); name the file" in " ".join(message.split())
    alleles["allele_2"][2] = "T"
    to_bed(
        "new.bed", turned, properties={"fid": FID, "iid": IID, "sid": [f"rs{j}" for j in range(P)], **alleles}
    )
    message = call("predict", "cohort-run", "new.bed", "--covariates", "people.csv", code=2).output
    assert "variant 'rs2' has the alleles A/T in new.bed but A/G in the run" in " ".join(message.split())


def test_covariates_of_a_table_are_joined_by_the_column_that_both_have(call: Call) -> None:
    X = pd.DataFrame(RNG.normal(size=(N, 3)), columns=["a", "b", "c"])
    y = X["a"] + 0.1 * AGE + RNG.normal(size=N)
    pd.concat([pd.DataFrame({"IID": IID}), X, y.rename("y")], axis=1).to_csv("data.csv", index=False)
    people = pd.DataFrame({"IID": IID, "age": AGE}).iloc[::-1]
    people["age"] = people["age"].astype(object)
    people.loc[7, "age"] = ""
    people.to_csv("ages.csv", index=False)
    message = call("fit", "data.csv", "-y", "y", "--covariates", "ages.csv", code=2).output
    assert "column 'age' has no value in row 53" in " ".join(message.split())
    result = call("fit", "data.csv", "-y", "y", "--covariates", "ages.csv", "--missing", "drop")
    assert "1 row has missing covariates and is left out" in " ".join(result.stderr.split())
    rows = np.setdiff1d(np.arange(N), [7])
    want = wv.exact(wv.Problem(X.iloc[rows], y[rows], covariates=AGE[rows, None])).inclusion_probabilities
    summary = pd.read_csv("data-run/summary.csv").set_index("variable")
    assert summary["pip"][want.index].to_numpy() == pytest.approx(want.to_numpy(), abs=1e-9)
    pd.DataFrame({"IID": IID, "age": AGE}).iloc[::-1].to_csv("ages.csv", index=False)
    shown = call("predict", "data-run", "data.csv", "--covariates", "ages.csv").stdout
    means = pd.read_csv(io.StringIO(shown))["mean"].to_numpy()
    posterior = wv.Posterior.load("data-run/posterior.npz")
    assert means == pytest.approx(posterior.predict((X, pd.DataFrame({"age": AGE}))), abs=1e-9)


BAD = {
    "twice": ("FID IID height\nf0 000 1\nf0 000 2\n", "rows 1 and 2 both belong to FID f0, IID 000"),
    "nobody": (
        "FID IID height\na b 1\n",
        "none of the 60 people is in bad.txt; the first is FID f0, IID 000",
    ),
    "other families": ("FID IID height\n0 000 1\n0 001 2\n", "join by IID alone with --id IID"),
    "no id": ("name height\na 1\n", "has no column that the data have too; it has 'name', 'height'"),
    "no response": ("FID IID weight\nf0 000 1\nf0 001 2\n", "there is no column 'height'"),
    "only ids": ("FID IID\nf0 000\n", "no column besides FID and IID"),
    "no header": ("1 000 1.5\n2 001 1.6\n", "has no header"),
    "a word": (
        "IID height\n000 tall\n001 2\n002 3\n003 1.5\n",
        "bad.txt: the response: column 'height' has 'tall' in row 1",
    ),
    "infinite": ("IID height\n000 1\n001 inf\n002 3\n", "bad.txt: column 'height' is infinite in row 2"),
    "coded cases": (
        "IID height\n000 1\n001 2\n002 0\n003 -9\n004 2\n",
        "1 is a control, 2 is a case and 0 is missing: write -9 or NA",
    ),
}


@pytest.mark.parametrize("which", list(BAD))
def test_phenotypes_that_cannot_be_used(call: Call, which: str) -> None:
    content, message = BAD[which]
    Path("bad.txt").write_text(content)
    output = call("fit", "cohort.bed", "-y", "height", "--phenotypes", "bad.txt", code=2).output
    assert message in " ".join(output.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cohort.bed", "-y", "height"], "--response phenotype"),
        (["cohort.bed", "-y", "phenotype", "--stream"], "--stream is for tables"),
        (["cohort.bed", "-y", "phenotype", "--maf", "0.9"], "--maf must lie between 0 and 0.5"),
        (["people.csv", "-y", "age", "--maf", "0.1"], "--maf is for genotypes (.bed, .pgen, .raw, .vcf)"),
        (["cohort.bed", "-y", "phenotype", "--log"], "--log is for tables, not for genotypes"),
        (["cohort.bed", "-y", "phenotype", "--spline", "rs1"], "--spline is for tables, not for genotypes"),
        (["people.csv", "-y", "age", "--indicators"], "--indicators is for --missing impute"),
        (
            ["people.csv", "-y", "age", "--stream", "--covariates", "people.csv"],
            "--covariates needs the whole table",
        ),
        (["none.bed", "-y", "phenotype"], "there is no file none.bed"),
        (["cohort.bed", "-y", "phenotype", "--keep", "people.csv"], "lists none of the 60 people"),
        (
            ["cohort.bed", "-y", "phenotype", "--region", "6:40-10"],
            "the first position is larger than the last",
        ),
    ],
)
def test_options_that_cannot_be_used(call: Call, arguments: list[str], message: str) -> None:
    assert message in " ".join(call("fit", *arguments, code=2).output.split())


@pytest.mark.filterwarnings(
    "ignore:the response 'height' consists of small whole numbers:whichvars.DataWarning"
)
def test_numbers_0_1_and_2_can_be_numbers(call: Call) -> None:
    lines = [f"{person} {i % 3}" for i, person in enumerate(IID)]
    Path("grades.txt").write_text("\n".join(["IID height", *lines]) + "\n")
    call("fit", "cohort.bed", "-y", "height", "--phenotypes", "grades.txt", "--family", "gaussian")


def test_covariates_that_cannot_be_used_are_named_with_their_file(call: Call) -> None:
    people = pd.read_csv("people.csv", dtype=str)
    people.loc[2, "age"] = "inf"
    people.to_csv("people.csv", index=False)
    output = call("fit", "cohort.bed", "-y", "height", "--phenotypes", "heights.txt", "--covariates", "people.csv", code=2).output  # fmt: skip
    assert "people.csv: column 'age' is infinite in row 3" in " ".join(output.split())


def test_some_covariates_can_be_dropped_and_the_response_must_be(call: Call) -> None:
    people = pd.read_csv("people.csv", dtype=str)
    people.assign(height="1.5", batch="").to_csv("more.csv", index=False)
    arguments = ["fit", "cohort.bed", "-y", "height", "--phenotypes", "heights.txt", "--seed", "1"]
    output = call(*arguments, "--covariates", "more.csv", code=2).output
    assert "more.csv has a column 'height', which is the response and cannot be a covariate too; say --drop height" in " ".join(output.split())  # fmt: skip
    call(*arguments, "--covariates", "more.csv", "--drop", "height,batch,rs3", "--out", "one")
    call(*arguments, "--covariates", "people.csv", "--drop", "rs3", "--out", "other")
    one, other = (pd.read_csv(f"{run}/summary.csv") for run in ("one", "other"))
    pd.testing.assert_frame_equal(one, other)
    assert "rs3" not in set(one["variable"])
    predicted = [call("predict", run, "cohort.bed", "--covariates", "more.csv").stdout for run in ("one", "other")]  # fmt: skip
    assert predicted[0] == predicted[1]
    output = call(*arguments, "--covariates", "people.csv", "--drop", "age,site", code=2).output
    assert "--drop leaves no column of people.csv" in " ".join(output.split())
    output = call(*arguments, "--covariates", "people.csv", "--drop", "aeg", code=2).output
    assert "drop: there is no column 'aeg'" in " ".join(output.split())


def test_the_same_person_twice_and_no_variants_are_refused(call: Call) -> None:
    fam = Path("cohort.fam").read_text().splitlines()
    Path("cohort.fam").write_text("\n".join([fam[0], fam[0], *fam[2:]]) + "\n")
    output = call("fit", "cohort.bed", "-y", "height", "--phenotypes", "heights.txt", code=2).output
    assert "have FID and IID f0 000, so that heights.txt cannot tell them apart; give each its own identifier in all files" in " ".join(output.split())  # fmt: skip
    Path("cohort.bim").write_text("")
    output = call("fit", "cohort.bed", "-y", "phenotype", code=2).output
    assert "cohort.bed has no variants" in output


def write_others() -> None:
    """The same genotypes in other files."""
    places = list(zip(["6"] * 4 + ["7"] * 2, [10, 20, 30, 40, 10, 20], [f"rs{j}" for j in range(P)], ["-", *["G"] * (P - 1)]))  # fmt: skip
    words = {0: "0/0", 1: "0|1", 2: "1/1", -127: "./."}
    lines = ["##fileformat=VCFv4.3", "\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *IID])]  # fmt: skip
    variants = ["#CHROM\tPOS\tID\tREF\tALT"]
    with PgenWriter(b"cohort.pgen", N, variant_ct=P, nonref_flags=False) as writer:
        for j, (chromosome, position, name, other) in enumerate(places):
            place = [chromosome, str(position), name, other, "A"]
            variants.append("\t".join(place))
            lines.append("\t".join([*place, ".", ".", ".", "GT", *(words[c] for c in COUNTS[:, j].tolist())]))
            writer.append_biallelic(np.where(COUNTS[:, j] == -127, -9, COUNTS[:, j]).astype(np.int8))
    Path("cohort.vcf").write_text("\n".join(lines) + "\n")
    Path("cohort.pvar").write_text("\n".join(variants) + "\n")
    people = [f"{family}\t{person}\t1" for family, person in zip(FID, IID)]
    Path("cohort.psam").write_text("\n".join(["#FID\tIID\tSEX", *people]) + "\n")


@pytest.mark.parametrize("file", ["cohort.vcf", "cohort.pgen"])
def test_other_files_of_genotypes_give_the_same_run(call: Call, file: str) -> None:
    write_others()
    Path("keep.txt").write_text("\n".join(f"{FID[i]} {IID[i]}" for i in range(57)))
    Path("exclude.txt").write_text("rs3\n")
    options = ("--phenotypes", "heights.txt", "-y", "height", "--covariates", "people.csv", "--keep", "keep.txt", "--exclude", "exclude.txt", "--mind", 0.5, "--geno", 0.1, "--maf", 0.02)  # fmt: skip
    bed = call("fit", "cohort.bed", *options, "--out", "bed")
    ours = call("fit", file, *options, "--out", "ours")
    said = [" ".join(result.stderr.split()) for result in (bed, ours)]
    assert "--maf leaves out 1 of 4 variants." in said[1]
    # people of a VCF file have no FID, which notes would name
    if file == "cohort.pgen":
        assert said[0] == said[1]
    for name in ("summary.csv", "variants.csv", "credible_sets.csv"):
        assert Path("bed", name).read_bytes() == Path("ours", name).read_bytes()
    for run, data in (("bed", "cohort.bed"), ("ours", file)):
        call("predict", run, data, "--covariates", "people.csv", "--out", f"{run}.csv")
    first, second = (pd.read_csv(f"{run}.csv")["mean"] for run in ("bed", "ours"))
    assert first.tolist() == second.tolist()
    assert len(first) == N
    result = call("fit", file, "-y", "phenotype", code=2)
    assert "has no phenotypes that are read; give a file of them with --phenotypes" in " ".join(result.stderr.split())  # fmt: skip


def test_several_alleles_are_counted_in_a_note(call: Call) -> None:
    write_others()
    text = Path("cohort.vcf").read_text().replace("rs3\tG\tA\t", "rs3\tG\tA,T\t")
    Path("cohort.vcf").write_text(text)
    result = call("fit", "cohort.vcf", "--phenotypes", "heights.txt", "-y", "height")
    said = " ".join(result.stderr.split())
    assert "Note: Left out 1 of 6 variants of cohort.vcf, which have more than two alleles" in said


@pytest.mark.parametrize("file", ["cohort.vcf", "cohort.pgen"])
def test_dosages_that_are_whole_numbers_give_the_run_of_counts(call: Call, file: str) -> None:
    write_others()
    text = Path("cohort.vcf").read_text().replace("\tGT\t", "\tGT:DS\t")
    for word, dosage in (("0/0", "0"), ("0|1", "1"), ("1/1", "2"), ("./.", ".")):
        # called genotypes that dosages must not be mistaken for
        text = text.replace(f"\t{word}", f"\t0/0:{dosage}")
    Path("cohort.vcf").write_text(text)
    options = ("--phenotypes", "heights.txt", "-y", "height", "--covariates", "people.csv", "--mind", 0.5, "--geno", 0.1, "--maf", 0.02)  # fmt: skip
    call("fit", "cohort.bed", *options, "--out", "bed")
    ours = call("fit", file, *options, "--dosages", "--out", "ours")
    assert "--mind leaves out 1 of 57 people." in " ".join(ours.stderr.split())
    assert "--geno leaves out 1 of 6 variants." in " ".join(ours.stderr.split())
    first, second = (pd.read_csv(f"{run}/summary.csv").set_index("variable") for run in ("bed", "ours"))
    assert first["pip"].to_dict() == pytest.approx(second["pip"].to_dict(), abs=1e-6)
    for run, data in (("bed", "cohort.bed"), ("ours", file)):
        call("predict", run, data, "--covariates", "people.csv", "--out", f"{run}.csv")
    means = [pd.read_csv(f"{run}.csv")["mean"].to_numpy() for run in ("bed", "ours")]
    assert means[0] == pytest.approx(means[1], abs=1e-5)
    for command in (("fit", "cohort.bed", *options, "--dosages"), ("predict", "ours", "cohort.bed", "--covariates", "people.csv")):  # fmt: skip
        said = " ".join(call(*command, code=2).output.split())
        assert "cohort.bed has counts of alleles only; dosages are in .pgen, .raw and .vcf files" in said


@pytest.mark.filterwarnings("ignore:.*genotypes:whichvars.DataWarning")
def test_a_raw_file_gives_the_run_of_the_bed_file_without_positions(call: Call) -> None:
    cells = np.where(COUNTS == -127, "NA", COUNTS.astype(str))
    phenotype = [*map(str, HEIGHT[:-1]), "-9"]
    lines = [" ".join([FID[i], IID[i], "0", "0", "0", phenotype[i], *cells[i]]) for i in range(N)]
    names = " ".join(f"rs{j}_A" for j in range(P))
    Path("cohort.raw").write_text("\n".join([f"FID IID PAT MAT SEX PHENOTYPE {names}", *lines]) + "\n")
    options = ("-y", "phenotype", "--covariates", "people.csv", "--geno", 0.1, "--maf", 0.02)
    for kind in ("bed", "raw"):
        result = call("fit", f"cohort.{kind}", *options, "--out", kind)
        said = " ".join(result.stderr.split())
        assert "--maf leaves out 1 of 5 variants." in said
        assert "59 of 60 people and 4 of 6 variants are used." in said
        call("predict", kind, f"cohort.{kind}", "--covariates", "people.csv", "--out", f"{kind}.csv")
    first, second = (pd.read_csv(f"{kind}/summary.csv") for kind in ("bed", "raw"))
    pd.testing.assert_frame_equal(first[second.columns.drop("allele2")], second.drop(columns="allele2"))
    assert set(first.columns) - set(second.columns) == {"chromosome", "position"}
    assert Path("bed.csv").read_bytes() == Path("raw.csv").read_bytes()
    said = " ".join(call("fit", "cohort.raw", *options, "--region", "6", code=2).stderr.split())
    assert "--region: a .raw file has no positions; use --extract" in said
    Path("cohort.raw").write_text(Path("cohort.raw").read_text().replace(phenotype[1], "tall"))
    said = " ".join(call("fit", "cohort.raw", *options, "--overwrite", code=2).stderr.split())
    assert "the phenotype in line 3 of the .raw file is 'tall', not a number" in said
