// The questions that uploading asks a W&B server, as GraphQL. Imports nothing.

const BUCKET =
  "id name displayName description config sweepName project{id name entity{id name}} historyLineCount";
export const UPSERT =
  `mutation UpsertBucket($id:String,$name:String,$project:String,$entity:String,$groupName:String,` +
  `$description:String,$displayName:String,$notes:String,$commit:String,$config:JSONString,$host:String,$debug:Boolean,` +
  `$program:String,$repo:String,$jobType:String,$state:String,$sweep:String,$tags:[String!],$summaryMetrics:JSONString){` +
  `upsertBucket(input:{id:$id,name:$name,groupName:$groupName,modelName:$project,entityName:$entity,` +
  `description:$description,displayName:$displayName,notes:$notes,config:$config,commit:$commit,host:$host,debug:$debug,` +
  `jobProgram:$program,jobRepo:$repo,jobType:$jobType,state:$state,sweep:$sweep,tags:$tags,` +
  `summaryMetrics:$summaryMetrics}){bucket{${BUCKET}} inserted}}`;
export const STATUS =
  `query RunResumeStatus($project:String,$entity:String,$name:String!){model(name:$project,` +
  `entityName:$entity){id name entity{id name} bucket(name:$name,missingOk:true){id name summaryMetrics displayName ` +
  `logLineCount historyLineCount eventsLineCount historyTail eventsTail config tags notes wandbConfig(keys:["t"])}}}`;
export const CREATE_FILES =
  `mutation CreateRunFiles($entity:String!,$project:String!,$run:String!,$files:[String!]!){` +
  `createRunFiles(input:{entityName:$entity,projectName:$project,runName:$run,files:$files}){` +
  `runID uploadHeaders files{name uploadUrl}}}`;
export const ALERT =
  `mutation NotifyScriptableRunAlert($entityName:String!,$projectName:String!,$runName:String!,$title:String!,` +
  `$text:String!,$severity:AlertSeverity,$waitDuration:Duration){notifyScriptableRunAlert(input:{entityName:$entityName,` +
  `projectName:$projectName,runName:$runName,title:$title,text:$text,severity:$severity,waitDuration:$waitDuration}){success}}`;
export const FILES =
  `query RunFiles($project:String,$entity:String,$run:String!){model(name:$project,entityName:$entity){` +
  `bucket(name:$run){files(first:1000){edges{node{name sizeBytes}}}}}}`;

/** All that the question for a run may say: what it does not say is null. */
export const NOTHING = {
  id: null,
  name: null,
  project: null,
  entity: null,
  groupName: null,
  description: null,
  displayName: null,
  notes: null,
  commit: null,
  config: null,
  host: null,
  debug: null,
  program: null,
  repo: null,
  jobType: null,
  state: null,
  sweep: null,
  tags: null,
  summaryMetrics: null,
};
