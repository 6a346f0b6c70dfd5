export { startInProcess, type InProcessDaemon, type InProcessOptions, selfSigned } from './assembly/in-process.ts';
export { type Log, silentLog } from './core/log.ts';
