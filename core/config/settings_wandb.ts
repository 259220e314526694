// Settings of the section wandb. Variables are those that W&B's own program has.
import { bool, choice, int, list, path, text } from "./kinds.ts";

/** What W&B takes as a run's id, and files as a part of their name. */
export const RUN_ID = {
  regex: /^[^:;,#?/'\\\s\0]{1,128}$/,
  says: "a run's id of up to 128 characters, none of them : ; , # ? / ' \\ or a space",
};
const PROJECT = {
  regex: /^[^/\\#?%:\0]{1,128}$/,
  says: "a project's name of up to 128 characters, none of them / \\ # ? % :",
};

export const wandb = {
  enabled: bool(true, { flag: "wandb", help: "write a Weights & Biases run" }),
  disabled: bool(false, { env: ["WANDB_DISABLED"], help: "the same the other way round, for its variable" }),
  mode: choice(["offline", "online", "disabled"], "offline", {
    shortcuts: { "wandb-offline": "offline", "wandb-online": "online" },
    env: ["WANDB_MODE"],
    help: "online also uploads while training; offline sends nothing anywhere",
  }),
  project: text("hpctrain", {
    flag: "wandb-project",
    env: ["WANDB_PROJECT"],
    pattern: PROJECT,
    help: "project the run belongs to",
  }),
  entity: text("", {
    flag: "wandb-entity",
    env: ["WANDB_ENTITY"],
    empty: "the account's own",
    help: "user or team",
  }),
  run_name: text("", {
    flag: "wandb-run-name",
    env: ["WANDB_NAME"],
    empty: "the run's name",
    help: "display name",
  }),
  id: text("", {
    flag: "wandb-id",
    env: ["WANDB_RUN_ID"],
    empty: "made, and kept in checkpoints",
    pattern: RUN_ID,
    help: "id of the run at W&B",
  }),
  group: text("", {
    flag: "wandb-group",
    env: ["WANDB_RUN_GROUP"],
    empty: "none",
    help: "group of runs it belongs to",
  }),
  job_type: text("", {
    flag: "wandb-job-type",
    env: ["WANDB_JOB_TYPE"],
    empty: "train",
    help: "what kind of run it is",
  }),
  tags: list({ flag: "wandb-tags", env: ["WANDB_TAGS"], empty: "none", help: "tags, separated by commas" }),
  notes: text("", {
    flag: "wandb-notes",
    env: ["WANDB_NOTES"],
    empty: "none",
    help: "what there is to say of it",
  }),
  dir: path("", {
    flag: "wandb-dir",
    env: ["WANDB_DIR"],
    empty: "the folder logs/",
    help: "folder that gets wandb/offline-run-*",
  }),
  files: list({
    flag: "wandb-files",
    empty: "none",
    help: "files that go with the run: best, latest, report, lineage, separated by commas",
  }),
  histograms: int(0, {
    min: 0,
    max: 1e9,
    flag: "wandb-histograms",
    empty: "none",
    help: "steps from one histogram of weights and gradients to the next",
  }),
  images: int(4, {
    min: 0,
    max: 64,
    flag: "wandb-images",
    empty: "none",
    help: "validation samples that are shown as pictures, where samples are pictures",
  }),
};
