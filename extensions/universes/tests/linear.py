"""Eisenstein & Hu (1998) and linear growth, written from the paper with numpy and scipy: beside theory.ts."""
import json
import sys

import numpy as np
from scipy.integrate import quad
from scipy.special import hyp2f1, spherical_jn

T27 = 2.7255 / 2.7


def eisenstein_hu(k, om, ob, h):
    """The full transfer function; k in 1/Mpc. Returns it and the sound horizon."""
    omh2, obh2, fb = om * h * h, ob * h * h, ob / om
    z_eq = 2.5e4 * omh2 / T27**4
    k_eq = 0.0746 * omh2 / T27**2
    b1 = 0.313 * omh2 ** (-0.419) * (1 + 0.607 * omh2**0.674)
    b2 = 0.238 * omh2**0.223
    z_d = 1291 * (omh2**0.251 / (1 + 0.659 * omh2**0.828)) * (1 + b1 * obh2**b2)
    r_d, r_eq = (31.5e3 * obh2 / T27**4 / z for z in (z_d, z_eq))
    s = 2 / (3 * k_eq) * np.sqrt(6 / r_eq) * np.log(
        (np.sqrt(1 + r_d) + np.sqrt(r_d + r_eq)) / (1 + np.sqrt(r_eq)))
    k_silk = 1.6 * obh2**0.52 * omh2**0.73 * (1 + (10.4 * omh2) ** (-0.95))
    a1 = (46.9 * omh2) ** 0.670 * (1 + (32.1 * omh2) ** (-0.532))
    a2 = (12.0 * omh2) ** 0.424 * (1 + (45.0 * omh2) ** (-0.582))
    alpha_c = a1 ** (-fb) * a2 ** (-(fb**3))
    beta_c = 1 / (1 + 0.944 / (1 + (458 * omh2) ** (-0.708)) * ((1 - fb) ** ((0.395 * omh2) ** (-0.0266)) - 1))

    def t0(alpha, beta):
        q = k / 13.41 / k_eq
        c = 14.2 / alpha + 386 / (1 + 69.9 * q**1.08)
        log = np.log(np.e + 1.8 * beta * q)
        return log / (log + c * q * q)

    f = 1 / (1 + (k * s / 5.4) ** 4)
    cdm = f * t0(1, beta_c) + (1 - f) * t0(alpha_c, beta_c)
    y = (1 + z_eq) / (1 + z_d)
    r = np.sqrt(1 + y)
    g = y * (-6 * r + (2 + 3 * y) * np.log((r + 1) / (r - 1)))
    alpha_b = 2.07 * k_eq * s * (1 + r_d) ** (-0.75) * g
    beta_b = 0.5 + fb + (3 - 2 * fb) * np.sqrt((17.2 * omh2) ** 2 + 1)
    s_tilde = s / (1 + (8.41 * omh2**0.435 / (k * s)) ** 3) ** (1 / 3)
    baryons = spherical_jn(0, k * s_tilde) * (
        t0(1, 1) / (1 + (k * s / 5.2) ** 2)
        + alpha_b / (1 + (beta_b / (k * s)) ** 3) * np.exp(-((k / k_silk) ** 1.4)))
    return fb * baryons + (1 - fb) * cdm, s


def no_wiggle(k, om, ob, h):
    omh2, obh2, fb = om * h * h, ob * h * h, ob / om
    s = 44.5 * np.log(9.83 / omh2) / np.sqrt(1 + 10 * obh2**0.75)
    a = 1 - 0.328 * np.log(431 * omh2) * fb + 0.38 * np.log(22.3 * omh2) * fb**2
    shape = om * h * (a + (1 - a) / (1 + (0.43 * k * s) ** 4))
    q = k / h * T27**2 / shape
    log = np.log(2 * np.e + 1.8 * q)
    return log / (log + (14.2 + 731 / (1 + 62.5 * q)) * q * q)


def growth(om, z):
    """In closed form: a hypergeometric function."""
    def d(a):
        return a * hyp2f1(1 / 3, 1, 11 / 6, -(1 - om) / om * a**3)
    return d(1 / (1 + z)) / d(1.0)


def answer(c, ks, zs, radii):
    om, ob, h, ns, sigma8 = (c[name] for name in ("omegaM", "omegaB", "h", "ns", "sigma8"))

    def shape(k):
        return k**ns * eisenstein_hu(k * h, om, ob, h)[0] ** 2

    def variance(r):
        def integrand(log_k):
            k = np.exp(log_k)
            return k**3 * shape(k) * (3 * spherical_jn(1, k * r) / (k * r)) ** 2 / (2 * np.pi**2)
        edges = np.log(np.geomspace(1e-5, 500 / r, 60))
        return sum(quad(integrand, a, b, epsrel=1e-9, limit=200)[0] for a, b in zip(edges, edges[1:]))

    height = sigma8**2 / variance(8)
    k = np.array(ks)
    return {
        "sound": float(eisenstein_hu(1.0, om, ob, h)[1]),
        "transfer": list(eisenstein_hu(k * h, om, ob, h)[0]),
        "smooth": list(no_wiggle(k * h, om, ob, h)),
        "power": list(height * shape(k)),
        "rms": [float(np.sqrt(height * variance(r))) for r in radii],
        "growth": [float(growth(om, z)) for z in zs],
        "distance": [quad(lambda x: 2997.92458 / np.sqrt(om * (1 + x) ** 3 + 1 - om), 0, z)[0] for z in zs],
    }


asked = json.load(sys.stdin)
json.dump([answer(c, asked["ks"], asked["zs"], asked["radii"]) for c in asked["cosmologies"]], sys.stdout)
