// Linear theory of a flat universe: distances, growth, the transfer function of Eisenstein & Hu (1998, ApJ
// 496, 605; numbers in brackets are its equations), and the power spectrum of matter.

/** Simpson's rule takes an even number of panels. */
function integrate(f: (x: number) => number, from: number, to: number, panels: number): number {
  const step = (to - from) / panels;
  let sum = f(from) + f(to);
  for (let i = 1; i < panels; i++) sum += (i % 2 === 1 ? 4 : 2) * f(from + i * step);
  return sum * step / 3;
}

export interface Cosmology {
  /** Densities are in units of the critical density today. */
  readonly omegaM: number;
  readonly omegaB: number;
  readonly h: number;
  /** Slope of the primordial spectrum. */
  readonly ns: number;
  /** Rms of the linear density contrast today, in spheres of 8 Mpc/h. */
  readonly sigma8: number;
}

/** c over 100 km/s/Mpc, in Mpc/h. */
export const HUBBLE_LENGTH = 2997.92458;

/** H(z) / H0. */
const expansion = ({ omegaM }: Cosmology, z: number): number => Math.sqrt(omegaM * (1 + z) ** 3 + 1 - omegaM);

/** Share of matter in the density at redshift z. */
export const matterAt = (c: Cosmology, z: number): number => c.omegaM * (1 + z) ** 3 / expansion(c, z) ** 2;

export const distanceTo = (c: Cosmology, z: number): number =>
  HUBBLE_LENGTH * integrate((x) => 1 / expansion(c, x), 0, z, 128);

/** Growth is 1 today. Heath's integral leaves out radiation. */
export const growth = (c: Cosmology, z: number): number => growing(c, z) / growing(c, 0);

/** H times the integral of da / (a H)^3; a = u^2 makes the integrand smooth at the beginning. */
function growing(c: Cosmology, z: number): number {
  const f = (u: number) => 2 * u ** 4 / (c.omegaM + (1 - c.omegaM) * u ** 6) ** 1.5;
  return expansion(c, z) * integrate(f, 0, 1 / Math.sqrt(1 + z), 128);
}

// Wavenumbers of the transfer functions are in 1/Mpc.

/** The microwave background has 2.7255 K (Fixsen 2009). */
const THETA = 2.7255 / 2.7;

interface Early {
  /** Omega_m h^2, Omega_b h^2 and the baryons' share of matter. */
  readonly m: number;
  readonly b: number;
  readonly share: number;
  /** Wavenumber of the horizon at equality (3). */
  readonly kEq: number;
  /** (1 + z) of equality over (1 + z) of the drag epoch. */
  readonly waited: number;
  /** Baryon to photon momentum at the drag epoch (5). */
  readonly ratio: number;
  readonly sound: number;
}

function early({ omegaM, omegaB, h }: Cosmology): Early {
  const m = omegaM * h ** 2, b = omegaB * h ** 2;
  const zEq = 2.5e4 * m * THETA ** -4; // (2)
  const kEq = 7.46e-2 * m * THETA ** -2;
  const b1 = 0.313 * m ** -0.419 * (1 + 0.607 * m ** 0.674);
  const b2 = 0.238 * m ** 0.223;
  const zDrag = 1291 * m ** 0.251 / (1 + 0.659 * m ** 0.828) * (1 + b1 * b ** b2); // (4)
  const ratioAt = (z: number) => 31.5 * b * THETA ** -4 * (1000 / z);
  const ratio = ratioAt(zDrag), atEq = ratioAt(zEq);
  const sound = 2 / (3 * kEq) * Math.sqrt(6 / atEq) *
    Math.log((Math.sqrt(1 + ratio) + Math.sqrt(ratio + atEq)) / (1 + Math.sqrt(atEq)));
  return { m, b, share: b / m, kEq, waited: (1 + zEq) / (1 + zDrag), ratio, sound };
}

/** The sound horizon at the drag epoch is in Mpc. */
export const soundHorizon = (c: Cosmology): number => early(c).sound;

/** Section 3 of the paper has the baryons' acoustic oscillations. */
export function transfer(c: Cosmology): (k: number) => number {
  const { m, b, share, kEq, waited, ratio, sound } = early(c);
  const kSilk = 1.6 * b ** 0.52 * m ** 0.73 * (1 + (10.4 * m) ** -0.95); // (7)
  const a1 = (46.9 * m) ** 0.67 * (1 + (32.1 * m) ** -0.532);
  const a2 = (12 * m) ** 0.424 * (1 + (45 * m) ** -0.582);
  const alphaC = a1 ** -share * a2 ** -(share ** 3); // (11)
  const bb1 = 0.944 / (1 + (458 * m) ** -0.708);
  const bb2 = (0.395 * m) ** -0.0266;
  const betaC = 1 / (1 + bb1 * ((1 - share) ** bb2 - 1)); // (12)
  const alphaB = 2.07 * kEq * sound * (1 + ratio) ** -0.75 * suppression(waited); // (14)
  const betaB = 0.5 + share + (3 - 2 * share) * Math.sqrt((17.2 * m) ** 2 + 1); // (24)
  const betaNode = 8.41 * m ** 0.435; // (23)
  return (k) => {
    const q = k / (13.41 * kEq), ks = k * sound;
    const f = 1 / (1 + (ks / 5.4) ** 4); // (18)
    const cold = f * pressureless(q, 1, betaC) + (1 - f) * pressureless(q, alphaC, betaC); // (17)
    const shifted = ks / Math.cbrt(1 + (betaNode / ks) ** 3); // (22)
    const damped = alphaB / (1 + (betaB / ks) ** 3) * Math.exp(-((k / kSilk) ** 1.4));
    const baryons = (pressureless(q, 1, 1) / (1 + (ks / 5.2) ** 2) + damped) * Math.sin(shifted) / shifted; // (21)
    return share * baryons + (1 - share) * cold; // (16)
  };
}

/** Section 4.2 has only the baryons' pressure. */
export function smoothTransfer(c: Cosmology): (k: number) => number {
  const { m, b, share } = early(c);
  const sound = 44.5 * Math.log(9.83 / m) / Math.sqrt(1 + 10 * b ** 0.75); // (26)
  const alpha = 1 - 0.328 * Math.log(431 * m) * share + 0.38 * Math.log(22.3 * m) * share ** 2; // (31)
  return (k) => {
    const gamma = m * (alpha + (1 - alpha) / (1 + (0.43 * k * sound) ** 4)); // (30), times h
    const q = k * THETA ** 2 / gamma;
    const l = Math.log(2 * Math.E + 1.8 * q);
    return l / (l + (14.2 + 731 / (1 + 62.5 * q)) * q ** 2); // (29)
  };
}

/** (15): how much of the baryons' own growth the drag has left. */
function suppression(y: number): number {
  const root = Math.sqrt(1 + y);
  return y * (-6 * root + (2 + 3 * y) * Math.log((root + 1) / (root - 1)));
}

/** (19) and (20). */
function pressureless(q: number, alpha: number, beta: number): number {
  const l = Math.log(Math.E + 1.8 * beta * q);
  return l / (l + (14.2 / alpha + 386 / (1 + 69.9 * q ** 1.08)) * q ** 2);
}

// Today's spectrum is scaled to sigma_8. k is in h/Mpc, P in (Mpc/h)^3.

export type Power = (k: number) => number;

export function linearPower(c: Cosmology): Power {
  const growth = transfer(c);
  const shape: Power = (k) => k === 0 ? 0 : k ** c.ns * growth(k * c.h) ** 2;
  const height = (c.sigma8 / rmsInSpheres(shape, 8)) ** 2;
  return (k) => height * shape(k);
}

export function rmsInSpheres(power: Power, radius: number): number {
  const perLogK = (logK: number) => {
    const k = Math.exp(logK);
    return k ** 3 * power(k) * sphere(k * radius) ** 2 / (2 * Math.PI ** 2);
  };
  // Less than 1e-7 of the integral lies outside, for any spectrum that structure could have grown from.
  return Math.sqrt(integrate(perLogK, Math.log(1e-3 / radius), Math.log(200 / radius), 2048));
}

/** The sphere has radius 1 and holds 1 in all. */
export function sphere(x: number): number {
  return x < 0.01 ? 1 - x * x / 10 : 3 * (Math.sin(x) - x * Math.cos(x)) / x ** 3;
}
