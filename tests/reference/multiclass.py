"""Several classes: `softmax.fit`."""

from fractions import Fraction

import sklearn.datasets

from tests.reference.sets import Data, Problem, bunch, cells, classes, exact, statsmodels_set

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


def anes96() -> Data:
    loaded = statsmodels_set("anes96")
    names = ("logpopul", "selfLR", "age", "educ", "income")
    return Data(names, exact(loaded.exog[list(names)].to_numpy()), classes(loaded.endog, 7))


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
