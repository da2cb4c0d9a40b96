"""Numbers: `least_squares.regress`."""

from fractions import Fraction

from tests.reference.sets import Data, Problem, exact, statsmodels_set, table


def regression(names, x, target, weight=None) -> Data:
    weight = [Fraction(1)] * len(x) if weight is None else weight
    return Data(tuple(names), x, [[w] for w in weight], target=target)


def polynomial(name: str, degree: int) -> Data:
    """The powers are exact too."""
    columns = table(name)
    powers = range(1, degree + 1)
    x = [[v**i for i in powers] for v in columns["x"]]
    return regression([f"x{i}" for i in powers], x, columns["y"])


def longley() -> Data:
    loaded = statsmodels_set("longley")
    return regression(
        tuple(loaded.exog.columns), exact(loaded.exog.to_numpy()), exact(loaded.endog)
    )


def ccard() -> Data:
    frame = statsmodels_set("ccard").data
    names = ("AGE", "INCOME", "INCOMESQ", "OWNRENT")
    x = exact(frame[list(names)].to_numpy())
    return regression(names, x, exact(frame["AVGEXP"]), [1 / row[2] for row in x])


NIST = "NIST, Statistical Reference Datasets, linear regression: "
ONES = "\n".join(f"x{i} 1.00000000000000 {{}}" for i in range(1, 6))

REGRESSION = {
    "norris": Problem(
        "regress",
        lambda: polynomial("norris", 1),
        NIST + "Norris",
        """
x1 1.00211681802045 0.429796848199937E-03
bias -0.262323073774029 0.232818234301152
""",
    ),
    "pontius": Problem(
        "regress",
        lambda: polynomial("pontius", 2),
        NIST + "Pontius",
        """
x1 0.732059160401003E-06 0.157817399981659E-09
x2 -0.316081871345029E-14 0.486652849992036E-16
bias 0.673565789473684E-03 0.107938612033077E-03
""",
    ),
    "noint1": Problem(
        "regress",
        lambda: polynomial("noint1", 1),
        NIST + "NoInt1",
        "x1 2.07438016528926 0.165289256198347E-01",
        bias=False,
    ),
    "noint2": Problem(
        "regress",
        lambda: polynomial("noint2", 1),
        NIST + "NoInt2",
        "x1 0.727272727272727 0.420827318078432E-01",
        bias=False,
    ),
    "longley": Problem(
        "regress",
        longley,
        NIST + "Longley; statsmodels' longley",
        """
GNPDEFL 15.0618722713733 84.9149257747669
GNP -0.358191792925910E-01 0.334910077722432E-01
UNEMP -2.02022980381683 0.488399681651699
ARMED -1.03322686717359 0.214274163161675
POP -0.511041056535807E-01 0.226073200069370
YEAR 1829.15146461355 455.478499142212
bias -3482258.63459582 890420.383607373
""",
    ),
    "filip": Problem(
        "regress",
        lambda: polynomial("filip", 10),
        NIST + "Filip",
        """
x1 -2772.17959193342 559.779865474950
x2 -2316.37108160893 466.477572127796
x3 -1127.97394098372 227.204274477751
x4 -354.478233703349 71.6478660875927
x5 -75.1242017393757 15.2897178747400
x6 -10.8753180355343 2.23691159816033
x7 -1.06221498588947 0.221624321934227
x8 -0.670191154593408E-01 0.142363763154724E-01
x9 -0.246781078275479E-02 0.535617408889821E-03
x10 -0.402962525080404E-04 0.896632837373868E-05
bias -1467.48961422980 298.084530995537
""",
    ),
    "wampler1": Problem(
        "regress",
        lambda: polynomial("wampler1", 5),
        NIST + "Wampler1",
        ONES.replace("{}", "-") + "\nbias 1.00000000000000 -",
    ),
    "wampler2": Problem(
        "regress",
        lambda: polynomial("wampler2", 5),
        NIST + "Wampler2",
        """
x1 0.100000000000000 -
x2 0.100000000000000E-01 -
x3 0.100000000000000E-02 -
x4 0.100000000000000E-03 -
x5 0.100000000000000E-04 -
bias 1.00000000000000 -
""",
    ),
    **{
        f"wampler{number}": Problem(
            "regress",
            lambda number=number: polynomial(f"wampler{number}", 5),
            NIST + f"Wampler{number}",
            f"""
x1 1.00000000000000 2363.55173469681E{power}
x2 1.00000000000000 779.343524331583E{power}
x3 1.00000000000000 101.475507550350E{power}
x4 1.00000000000000 5.64566512170752E{power}
x5 1.00000000000000 0.112324854679312E{power}
bias 1.00000000000000 2152.32624678170E{power}
""",
        )
        for number, power in ((3, 0), (4, 2), (5, 4))
    },
    "ccard": Problem(
        "regress",
        ccard,
        "Greene's expenditure of credit card holders, weights 1 / INCOMESQ; Stata, in "
        "statsmodels' results_regression.py",
        """
AGE -2.6941851611 3.807306306
INCOME 158.426977524 76.39115431
INCOMESQ -7.24928987289 9.724337321
OWNRENT 60.4487736936 58.55088753
bias -114.10886935 139.6874965
""",
    ),
}
